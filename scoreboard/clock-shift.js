/** Moves the clock of this process, as its libraries read it, away from the clocks of other processes and of servers. */

const SystemDate = globalThis.Date;

export function shiftClock(ms) {
  class ShiftedDate extends SystemDate {
    constructor(...args) {
      if (args.length === 0) super(SystemDate.now() + ms);
      else super(...args);
    }

    static now() {
      return SystemDate.now() + ms;
    }
  }
  globalThis.Date = ShiftedDate;
}

export function restoreClock() {
  globalThis.Date = SystemDate;
}

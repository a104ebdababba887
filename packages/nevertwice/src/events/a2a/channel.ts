/** Passes events from a producer that never waits to a reader that may stop reading. */
export interface Channel<Event> {
  push(event: Event): void;
  end(): void;
  events(): AsyncGenerator<Event, void, undefined>;
}

export function createChannel<Event>(): Channel<Event> {
  const waiting: Event[] = [];
  let isEnded = false;
  let wake = () => {};

  return {
    push(event) {
      waiting.push(event);
      wake();
    },
    end() {
      isEnded = true;
      wake();
    },
    async *events() {
      for (;;) {
        yield* waiting.splice(0);
        if (waiting.length > 0) continue;
        if (isEnded) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/*
 * Provisional Commitment: one commitment, two callers that try forever to confirm, release or expire it, and a clock that
 * may tick at any time. A transaction takes the lock of the row, reads the clock, decides, and is committed or lost.
 *
 * Twins, each of which must fail: RE_RESOLUTION (no check that it is still held), AT_BOUNDARY (it can be confirmed at
 * expiresAt itself), EARLY_EXPIRY (it can expire at any time), UNLOCKED (a row may change between its read and its write).
 */
#define LAST 4
#define LONGEST 2

mtype = { unplaced, held, confirmed, released, expired }

byte now;
mtype state = unplaced;
byte placedAt, expiresAt, endedAt;
bool locked;
/* How often it left held. The code has no such counter. */
byte ends;

#define isEnded (state == confirmed || state == released || state == expired)

ltl single_resolution { [] (ends <= 1) }
ltl confirmed_inside_window { [] (state == confirmed -> endedAt < expiresAt) }
ltl absorption {
  [] ((state == confirmed -> [] (state == confirmed)) &&
      (state == released -> [] (state == released)) &&
      (state == expired -> [] (state == expired)))
}
ltl instants_in_order {
  [] ((state != unplaced -> placedAt < expiresAt) && (isEnded -> endedAt >= placedAt) &&
      (state == expired -> endedAt >= expiresAt))
}

inline lock() {
#ifndef UNLOCKED
  atomic { !locked -> locked = true }
#else
  skip
#endif
}

inline unlock() {
  locked = false
}

/* commitment.ts: notHeldRejection, isElapsed, confirm, release and expire. */
inline decide(wanted, found, at, next) {
#ifdef RE_RESOLUTION
#define MAY_END (found != unplaced)
#else
#define MAY_END (found == held)
#endif
#ifdef AT_BOUNDARY
#define IN_TIME (at <= expiresAt)
#else
#define IN_TIME (at < expiresAt)
#endif
#ifdef EARLY_EXPIRY
#define IS_OVER true
#else
#define IS_OVER (at >= expiresAt)
#endif
  if
  :: !MAY_END -> next = found
  :: MAY_END && wanted == confirmed && IN_TIME -> next = confirmed
  :: MAY_END && wanted == confirmed && !IN_TIME -> next = found
  :: MAY_END && wanted == expired && IS_OVER -> next = expired
  :: MAY_END && wanted == expired && !IS_OVER -> next = found
  :: MAY_END && wanted == released -> next = released
  fi
}

active proctype Clock() {
  do
  :: now < LAST -> now++
  :: now == LAST -> break
  od
}

active proctype Placer() {
  byte duration;
  select (duration : 1 .. LONGEST);
  d_step {
    placedAt = now;
    expiresAt = now + duration;
    state = held
  }
}

active [2] proctype Caller() {
  byte at;
  mtype wanted, found, next;
  do
  :: lock();
    if
    :: wanted = confirmed
    :: wanted = released
    :: wanted = expired
    fi;
    d_step {
      found = state;
      at = now;
      decide(wanted, found, at, next)
    }
    if
    :: d_step {
        if
        :: MAY_END && next == wanted ->
          state = next;
          endedAt = at;
          ends = (ends < 2 -> ends + 1 : 2)
        :: else
        fi;
        unlock()
      }
    :: unlock() /* Lost before the commit: nothing was written. */
    fi;
    d_step { at = 0; wanted = 0; found = 0; next = 0 }
  od
}

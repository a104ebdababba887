/*
 * Duplicate Prevention: one key, two callers who record it again and again, forever, a clock, and rows past their window
 * that are removed or linger. Instants are kept as distances from now, so that time needs no end.
 *
 * Twins, each of which must fail: EXTENDED (recording again starts the window anew), AT_BOUNDARY (seen at the very
 * instant of its end), EARLY_PURGE (a row is removed before its window ends).
 */
#define WINDOW 3
/* All later distances look the same. */
#define LONG (WINDOW + 1)

bool row;
/* now - recordedAt of the row. */
byte since = LONG;
/* The same of the recording that opened the window, whatever has become of its row. The code has no such thing. */
byte age = LONG;

#ifdef AT_BOUNDARY
#define seen (row && since <= WINDOW)
#else
#define seen (row && since < WINDOW)
#endif

ltl single_recording { [] (seen <-> age < WINDOW) }
ltl eventual_expiry { [] (seen -> <> !seen) }

active proctype Clock() {
  do
  :: d_step {
      since = (since < LONG -> since + 1 : LONG);
      age = (age < LONG -> age + 1 : LONG)
    }
  od
}

/* duplicate-prevention.ts: record. */
active [2] proctype Caller() {
  do
  :: d_step {
      if
#ifndef EXTENDED
      :: seen -> skip
#endif
      :: else ->
        row = true;
        since = 0
      fi;
      if
      :: age >= WINDOW -> age = 0
      :: else
      fi
    }
  od
}

active proctype Purger() {
  do
#ifdef EARLY_PURGE
  :: d_step { row -> row = false; since = LONG }
#else
  :: d_step { row && since >= WINDOW -> row = false; since = LONG }
#endif
  od
}

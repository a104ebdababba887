/*
 * Duplicate Prevention: one key, two callers that record it forever, a clock, and a purge that may or may not remove a row
 * past its window. Times are stored as distances from now, so that the model is finite.
 *
 * Twins, each of which must fail: EXTENDED (a second recording restarts the window), AT_BOUNDARY (the key is seen at
 * windowEndsAt itself), EARLY_PURGE (a row is removed before its window ends).
 */
#define WINDOW 3
/* All larger distances count as this one. */
#define LONG (WINDOW + 1)

bool row;
/* now - recordedAt of the row. */
byte since = LONG;
/* The same for the recording that opened the window, even if its row is gone. The code has no such variable. */
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

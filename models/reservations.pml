/*
 * The composition: two callers request one hold with one key, forever, with either of two sets of parameters, whether or
 * not they got an answer. Each try is one transaction, which may be lost before the commit, or committed without an answer.
 * Meanwhile a third caller takes the resource and gives it back, a sweeper expires holds, a purge removes old rows, and a
 * clock ticks.
 *
 * Twins, each of which must fail: EARLY_EVICTION (an answer may be removed while its key is recorded), OUTSIDE (the key is
 * recorded after the transaction), FORGOTTEN_REJECTION (a rejection is not stored), UNBOUND (a key returns its answer for
 * any parameters), UNLOCKED (the second caller with a key does not wait for the first), LOST_LOCK (a lost transaction keeps
 * its locks). With -DHISTORY=1 answers are kept for one tick after the window.
 */
#define LAST 4
#define WINDOW 2
#define DURATION 1
#ifndef HISTORY
#define HISTORY 0
#endif

/* Answers: ids of commitments are the numbers from 1. */
#define NOTHING 0
#define UNAVAILABLE 100
#define COLLISION 101

#define NEVER 255

byte now;

bool keyLocked, resourceLocked;
/* The recording of the key, and its answer. In the code they are one row. */
bool isRecorded, isKept;
byte windowEndsAt, keptUntil, keptAnswer;
bool keptDigest;

bool isHeld, isOthers;
byte holdEndsAt, ids;

/* The truth, which the code cannot see: since when the key means one operation, its answer, and its effects. */
bool isOpened;
byte openedAt, truth, effects;
bool truthDigest, isDifferent;

#define isSeen(at) (isRecorded && at < windowEndsAt)
#define isTrue(at) (isOpened && at < openedAt + WINDOW + HISTORY)

ltl at_most_one_effect { [] (effects <= 1) }
ltl same_answer { [] !isDifferent }
ltl recorded_is_answered { [] (isSeen(now) -> isKept) }
ltl nobody_waits_forever { [] (keyLocked -> <> !keyLocked) }

/* Notes the decision, and whether it is for the operation of the key. */
inline compare(at, digest, answer, isEffect) {
  if
  :: isTrue(at) ->
    effects = effects + isEffect;
    isDifferent = isDifferent || (answer != (digest == truthDigest -> truth : COLLISION))
  :: else ->
    isOpened = true;
    openedAt = at;
    truth = answer;
    truthDigest = digest;
    effects = isEffect
  fi
}

/* decision.ts: repeatAnswer. */
inline answerAgain(digest, answer) {
  if
#ifdef UNBOUND
  :: true -> answer = keptAnswer
#else
  :: digest == keptDigest -> answer = keptAnswer
  :: else -> answer = COLLISION
#endif
  fi
}

/* decision.ts: placeHold. Expires a hold whose time is over. */
inline carryOut(at, answer) {
  if
  :: isHeld && at < holdEndsAt -> answer = UNAVAILABLE
  :: else ->
    ids++;
    answer = ids;
    isHeld = true;
    holdEndsAt = at + DURATION
  fi
}

inline keep(at, digest, answer) {
  isRecorded = true;
  windowEndsAt = at + WINDOW;
  isKept = true;
  keptUntil = at + WINDOW + HISTORY;
  keptAnswer = answer;
  keptDigest = digest
}

#ifdef UNLOCKED
#define IS_FREE(lock) true
#else
#define IS_FREE(lock) (!lock)
#endif

active proctype Clock() {
  do
  :: now < LAST -> now++
  :: now == LAST -> break
  od
}

active [2] proctype Caller() {
  byte at, answer;
  bool digest, isFound;
  do
  :: if
    :: digest = 0
    :: digest = 1
    fi;
    d_step { IS_FREE(keyLocked) -> keyLocked = true; isFound = isKept };
    d_step { !resourceLocked -> resourceLocked = true };
    at = now;
    if
    :: d_step {
        /* Committed, everything at once. Whether the caller gets the answer does not change what it requests next. */
        if
        :: isFound && (isSeen(at) || at < keptUntil) ->
          answerAgain(digest, answer);
          compare(at, digest, answer, 0);
          answer = NOTHING
        :: else ->
          carryOut(at, answer);
          compare(at, digest, answer, (answer == UNAVAILABLE -> 0 : 1));
#ifdef FORGOTTEN_REJECTION
          answer = (answer == UNAVAILABLE -> NOTHING : answer);
#endif
#ifndef OUTSIDE
          if
          :: answer != NOTHING -> keep(at, digest, answer)
          :: else
          fi
#endif
        fi;
        resourceLocked = false
      }
#ifdef OUTSIDE
      if
      :: d_step { answer != NOTHING -> keep(at, digest, answer) }
      :: skip
      fi;
#endif
    :: d_step { resourceLocked = false } /* Lost before the commit: nothing was written. */
#ifdef LOST_LOCK
      break
#endif
    fi;
    d_step { keyLocked = false; at = 0; answer = NOTHING; digest = 0; isFound = false }
  od
}

/* Its keys are different, so only the units that it takes matter here. */
active proctype Other() {
  do
  :: d_step { !resourceLocked && !isHeld -> isHeld = true; isOthers = true; holdEndsAt = NEVER }
  :: d_step { !resourceLocked && isOthers -> isHeld = false; isOthers = false; holdEndsAt = 0 }
  od
}

active proctype Sweeper() {
  do
  :: d_step { !resourceLocked && isHeld && now >= holdEndsAt -> isHeld = false; holdEndsAt = 0 }
  od
}

/* Reads the clock and then finds the row, which may have been recorded again meanwhile. */
active proctype Purger() {
  byte at;
  do
  :: at = now;
    if
#ifdef EARLY_EVICTION
    :: d_step { !keyLocked && isKept -> isKept = false; keptUntil = 0; keptAnswer = 0; keptDigest = 0 }
#else
    :: d_step {
        !keyLocked && isKept && keptUntil <= at ->
        isRecorded = false; windowEndsAt = 0;
        isKept = false; keptUntil = 0; keptAnswer = 0; keptDigest = 0
      }
#endif
    :: skip
    fi;
    at = 0
  od
}

/*
 * The registry: two resources; two holders that place holds of one or two units on one resource or on both, confirm all or
 * some units, release them and give them back; a sweeper; an operator that changes a capacity; and a clock. All of them run
 * forever. A transaction locks its resources in order, decides, and is committed or lost. Times are stored as distances
 * from now, and the slot of a commitment that occupies nothing is used again, so that the model is finite.
 *
 * Twins, each of which must fail: EXPIRED_TWICE (the sweeper frees units without checking that they are still held),
 * CLAMPED (a capacity is reduced below the units taken), OVERSOLD (the capacity is not checked), KEPT_REST (a partial
 * confirm does not free the rest).
 */
#define RESOURCES 2
#define SLOTS 3
#define LARGEST 2
#define DURATION 1

mtype = { nothing, held, confirmed }

byte capacity[RESOURCES] = LARGEST;
byte taken[RESOURCES];
bool isLocked[RESOURCES];

/* Commitments. */
mtype state[SLOTS] = nothing;
bool resourceOf[SLOTS];
byte occupied[SLOTS];
/* expiresAt - now, of a hold. */
byte left[SLOTS];

#define on(slot, resource) ((resourceOf[slot] == resource) * occupied[slot])
#define sum(resource) (on(0, resource) + on(1, resource) + on(2, resource))
#define isElapsed(slot) (state[slot] == held && left[slot] == 0)

/* registry.ts throws if more units are given back than are taken. This must never happen. */
bool isThrown;

ltl conserved { [] (taken[0] == sum(0) && taken[1] == sum(1)) }
ltl never_oversold { [] (taken[0] <= capacity[0] && taken[1] <= capacity[1]) }
ltl never_thrown { [] !isThrown }

inline lock(wantedLock) {
  d_step { !isLocked[wantedLock] -> isLocked[wantedLock] = true }
}

/* registry.ts: giveBack. */
inline free(owner, returned) {
  if
  :: (returned) > taken[owner] -> isThrown = true
  :: else -> taken[owner] = taken[owner] - (returned)
  fi
}

inline put(row, next, itsResource, itsUnits, ticks) {
  state[row] = next;
  resourceOf[row] = itsResource;
  occupied[row] = itsUnits;
  left[row] = ticks
}

/* decision.ts: settle of a hold that was released or expired. */
inline end(over) {
  free(resourceOf[over], occupied[over]);
  put(over, nothing, 0, 0, 0)
}

/* decision.ts: placeHold. Expires as many elapsed holds as it needs. */
inline placeHold(where, many) {
  index = 0;
  do
  :: index < SLOTS && taken[where] + many > capacity[where] ->
    if
    :: isElapsed(index) && resourceOf[index] == where -> end(index)
    :: else
    fi;
    index++
  :: else -> break
  od;
  index = 0;
  do
  :: index < SLOTS && state[index] != nothing -> index++
  :: else -> break
  od;
  if
#ifdef OVERSOLD
  :: index < SLOTS ->
#else
  :: index < SLOTS && taken[where] + many <= capacity[where] ->
#endif
    taken[where] = taken[where] + many;
    put(index, held, where, many, DURATION)
  :: else
  fi;
  index = 0
}

inline confirm(chosen, some) {
  if
  :: state[chosen] == held && left[chosen] > 0 && some <= occupied[chosen] ->
#ifndef KEPT_REST
    free(resourceOf[chosen], occupied[chosen] - some);
#endif
    put(chosen, confirmed, resourceOf[chosen], some, 0)
  :: else
  fi
}

inline release(chosen) {
  if
  :: state[chosen] == held -> end(chosen)
  :: else
  fi
}

inline giveBack(chosen, some) {
  if
  :: state[chosen] == confirmed && some <= occupied[chosen] ->
    free(resourceOf[chosen], some);
    occupied[chosen] = occupied[chosen] - some;
    if
    :: occupied[chosen] == 0 -> put(chosen, nothing, 0, 0, 0)
    :: else
    fi
  :: else
  fi
}

active proctype Clock() {
  do
  :: d_step {
      left[0] = (left[0] > 0 -> left[0] - 1 : 0);
      left[1] = (left[1] > 0 -> left[1] - 1 : 0);
      left[2] = (left[2] > 0 -> left[2] - 1 : 0)
    }
  od
}

active [2] proctype Holder() {
  byte slot, units, index;
  bool resource;
  do
  :: if
    :: d_step { !isLocked[0] -> isLocked[0] = true; resource = 0 }
    :: d_step { !isLocked[1] -> isLocked[1] = true; resource = 1 }
    fi;
    atomic {
      select (slot : 0 .. SLOTS - 1);
      select (units : 1 .. LARGEST);
      if
      :: d_step { placeHold(resource, units) }
      :: d_step { resourceOf[slot] == resource -> confirm(slot, units) }
      :: d_step { resourceOf[slot] == resource -> release(slot) }
      :: d_step { resourceOf[slot] == resource -> giveBack(slot, units) }
      :: skip /* Lost before the commit. */
      fi;
      d_step { isLocked[resource] = false; slot = 0; units = 0; resource = 0 }
    }
  :: /* Two holds, decided and written as one group. */
    lock(0);
    lock(1);
    d_step { placeHold(0, 1); placeHold(1, 1); isLocked[0] = false; isLocked[1] = false }
  od
}

#ifdef EXPIRED_TWICE
#define NOTE(found) units = occupied[found]
#else
#define NOTE(found) skip
#endif
#define FIND(found) d_step { isElapsed(found) -> slot = found; resource = resourceOf[found]; NOTE(found) }

/* sweeper.ts: finds an elapsed hold, and then expires it in a separate transaction. */
active proctype Sweeper() {
  byte slot, units;
  bool resource;
  do
  :: if
    :: FIND(0)
    :: FIND(1)
    :: FIND(2)
    fi;
    lock(resource);
    d_step {
#ifdef EXPIRED_TWICE
      free(resource, units);
      put(slot, nothing, 0, 0, 0);
#else
      if
      :: isElapsed(slot) && resource == resourceOf[slot] -> end(slot)
      :: else
      fi;
#endif
      isLocked[resource] = false;
      slot = 0;
      units = 0;
      resource = 0
    }
  od
}

/* registry.ts: adjust. */
active proctype Governor() {
  byte wanted;
  do
  :: lock(0);
    atomic {
      select (wanted : 0 .. LARGEST);
      if
#ifdef CLAMPED
      :: true -> capacity[0] = wanted
#else
      :: wanted >= taken[0] -> capacity[0] = wanted
      :: else
#endif
      fi;
      d_step { isLocked[0] = false; wanted = 0 }
    }
  od
}

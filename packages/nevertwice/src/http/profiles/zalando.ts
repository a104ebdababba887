/** Rule 230 of Zalando's RESTful API guidelines: every response is kept, failures too, and a changed request gets a 400. */
import type { Profile } from "../profile.ts";

export const ZALANDO: Profile = {
  name: "zalando",
  options: { keep: "keep", onFailure: "remember", problemBase: "/problems/" },
  problems: { status: { conflict: 400 } },
};

/** The RESTful API guidelines of Zalando, rule 230: every answer is kept, failures too, and a changed request is a 400. */
import type { Profile } from "../profile.ts";

export const ZALANDO: Profile = {
  name: "zalando",
  options: { keep: "keep", onFailure: "remember", problemBase: "/problems/" },
  problems: { status: { conflict: 400 } },
};

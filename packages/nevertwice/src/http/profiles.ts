/** The profiles, by name. */
import { oneOf } from "../core/option-checks.ts";
import type { Profile } from "./profile.ts";
import { PROFILE_NAMES, type ProfileName } from "./profile-names.ts";
import { ACP } from "./profiles/acp.ts";
import { ADCP } from "./profiles/adcp.ts";
import { OASIS } from "./profiles/oasis.ts";
import { STRIPE_V1, STRIPE_V2 } from "./profiles/stripe.ts";
import { UCP } from "./profiles/ucp.ts";
import { X402 } from "./profiles/x402.ts";
import { ZALANDO } from "./profiles/zalando.ts";

/** The IETF draft. Its rules are our defaults. */
const IETF: Profile = { name: "ietf", options: {}, problems: {} };

export const PROFILES: Readonly<Record<ProfileName, Profile>> = {
  ietf: IETF,
  "stripe-v1": STRIPE_V1,
  "stripe-v2": STRIPE_V2,
  acp: ACP,
  ucp: UCP,
  adcp: ADCP,
  x402: X402,
  zalando: ZALANDO,
  oasis: OASIS,
};

/** The options that a profile sets where yours say nothing. Throws `options-invalid` for another name. */
export function profileOptions(name: ProfileName): Profile["options"] {
  oneOf(...PROFILE_NAMES)("profile", name);
  return PROFILES[name].options;
}

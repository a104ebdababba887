/** The names of all profiles. */
export const PROFILE_NAMES = [
  "ietf",
  "stripe-v1",
  "stripe-v2",
  "acp",
  "ucp",
  "adcp",
  "x402",
  "zalando",
  "oasis",
] as const;

/** The name of a profile: a service whose rules apply where services differ. */
export type ProfileName = (typeof PROFILE_NAMES)[number];

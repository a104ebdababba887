/** Returns the secret part of an access token, whole: it may contain underscores itself. */
export function secretIn(token: string): string {
  return token.split("_").slice(2).join("_");
}

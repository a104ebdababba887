/** Addresses of the pages about one network, and back. An id may contain any character. */
export function networkAddress(id: string): string {
  return `/pipelines/${encodeURIComponent(id)}`;
}

export function journeyAddress(network: string, number: number): string {
  return `${networkAddress(network)}/journeys/${number}`;
}

/** A segment of an address that was typed by hand may be malformed; then it names no network. */
export function networkId(segment: string | undefined): string {
  try {
    return decodeURIComponent(segment ?? "");
  } catch {
    return segment ?? "";
  }
}

/** The address in the API. */
export function networkRoute(id: string): string {
  return `/v1/pipelines/${encodeURIComponent(id)}`;
}

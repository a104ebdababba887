/** A real client: how one piece of work is sent with it, in the one setting that docs/clients.md tells its users. */

export interface Order {
  /** Of the service or the gateway, without a slash at the end. */
  readonly url: string;
  /** The headers that carry the key; empty if the caller sends none. */
  readonly headers: Readonly<Record<string, string>>;
  /** The name of the work, which the body contains. */
  readonly work: string;
}

export interface Client {
  readonly name: string;
  /** The npm packages whose versions the page names. */
  readonly packages: readonly string[];
  /** The version of a program that no package brings. */
  readonly version?: string;
  /** Whether it makes a key for every call by itself. */
  readonly makesKeys?: boolean;
  /** The URL of its file, whose lines between `setting` and `end of setting` the page shows. */
  readonly program: string;
  /** What its caller has to set, for the page. */
  readonly needs: string;
  /** What the route needs, for the page: a profile, or the option that makes duplicates wait. Empty for nothing. */
  readonly route: string;
  /**
   * Returns the id in the answer if the client's software takes the call for a success. It throws what the software throws,
   * or `Refused` where its documentation tells the caller to look at the status.
   */
  call(order: Order): Promise<unknown>;
}

/** The answer has a status that means failure. */
export class Refused extends Error {
  readonly status: number;
  constructor(status: number, options?: ErrorOptions) {
    super(`refused with ${status}`, options);
    this.status = status;
  }
}

export interface Told {
  /** The id in the answer; undefined if the call failed. */
  readonly id?: unknown;
  /** The status of a call that failed; undefined if there was no answer. */
  readonly status?: number;
}

/** What the caller was told. */
export async function tell(client: Client, order: Order): Promise<Told & { readonly isSuccess: boolean }> {
  try {
    return { isSuccess: true, id: await client.call(order) };
  } catch (error) {
    const status = findStatus(error);
    return { isSuccess: false, ...(status !== undefined && { status }) };
  }
}

/** SDKs put the status in different places. */
function findStatus(error: unknown): number | undefined {
  const { response, status, statusCode } = error as Record<string, unknown>;
  const inside = (response ?? {}) as Record<string, unknown>;
  return [inside.status, inside.statusCode, status, statusCode].find(
    (value): value is number => typeof value === "number" && value >= 100,
  );
}

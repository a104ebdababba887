/** Says that the owner of a request has its home in another region. It leaves the idempotency layer before a key is claimed. */
export class HomeElsewhere extends Error {
  readonly region: string;
  readonly scope: string;
  readonly mapVersion: number;

  constructor(home: { readonly region: string; readonly scope: string; readonly mapVersion: number }) {
    super(`the home of this owner is ${home.region}`);
    this.region = home.region;
    this.scope = home.scope;
    this.mapVersion = home.mapVersion;
  }
}

/** The member of Cloudflare's own module that the programs of these tests use. The example of a Worker declares `env`. */
declare module "cloudflare:workers" {
  export function waitUntil(work: Promise<unknown>): void;
}

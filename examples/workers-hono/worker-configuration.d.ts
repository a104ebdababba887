/** The bindings of this Worker. `wrangler types` writes such a file, with the types of the whole runtime. */
declare module "cloudflare:workers" {
  export const env: {
    readonly NEVERTWICE: import("nevertwice/stores/durable-objects").DurableObjectNamespace;
  };
}

/** The variables that Upstash's console names, as bindings of a Worker. */
export interface UpstashEnv {
  readonly UPSTASH_REDIS_REST_URL: string;
  readonly UPSTASH_REDIS_REST_TOKEN: string;
}

/** Tests that adapters of the large frameworks are held to the same exchanges as all others. */
import { describeAdapterCases } from "./adapters/describe.ts";
import { express4Harness, expressHarness } from "./adapters/express.ts";
import { fastifyHarness } from "./adapters/fastify.ts";
import { honoHarness, honoRequestHarness } from "./adapters/hono.ts";

describeAdapterCases("express 5", expressHarness);
describeAdapterCases("express 4", express4Harness);
describeAdapterCases("fastify", fastifyHarness);
describeAdapterCases("hono on node's server", honoHarness);
describeAdapterCases("hono by app.request", honoRequestHarness);

/** Tests that Nest, on both of its platforms, is held to the same exchanges as all others. */
import { describeAdapterCases } from "./adapters/describe.ts";
import { nestExpressHarness, nestFastifyHarness, nestResponseHarness } from "./adapters/nest.ts";

describeAdapterCases("nest on express", nestExpressHarness);
describeAdapterCases("nest on express, with @Res()", nestResponseHarness);
describeAdapterCases("nest on fastify", nestFastifyHarness);

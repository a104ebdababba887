/** Tests that adapters without a framework, or nearly, are held to the same exchanges as all others. */
import { describeAdapterCases } from "./adapters/describe.ts";
import { fetchHarness } from "./adapters/fetch.ts";
import { koaHarness } from "./adapters/koa.ts";
import { lambda1Harness, lambda2Harness } from "./adapters/lambda.ts";
import { http2Harness, nodeHarness } from "./adapters/node.ts";

describeAdapterCases("fetch", fetchHarness);
describeAdapterCases("lambda, with events of version 1", lambda1Harness);
describeAdapterCases("lambda, with events of version 2", lambda2Harness);
describeAdapterCases("node over HTTP/1.1", nodeHarness);
describeAdapterCases("node over HTTP/2", http2Harness);
describeAdapterCases("koa", koaHarness);

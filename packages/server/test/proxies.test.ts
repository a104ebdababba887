/** Tests docs/proxies.md: real proxies before the gateway, and between it and the service, with the settings that the page shows. */
import { readFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import pg from "pg";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { createService, createTables } from "../../../examples/behind-gateway/service.js";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import { installMissing } from "../../nevertwice/test/services/packages.ts";
import { startProxy } from "../../nevertwice/test/services/proxy.ts";
import { type ReverseProxyName, startReverseProxy } from "../../nevertwice/test/services/reverse-proxies.ts";
import { sharedUrl, startFor } from "../../nevertwice/test/services/services.ts";
import { gatewayBefore, read, send, serviceOn } from "./gateway/stage.ts";

const PAGE = readFileSync(new URL("../../../docs/proxies.md", import.meta.url), "utf8");

/** The block of the page after the comment with this name. */
function settingOf(name: string): string {
  const block = new RegExp(`<!-- ${name} -->\\s+\`\`\`\\w*\\n([\\s\\S]+?)\\n\`\`\``).exec(PAGE)?.[1];
  if (block === undefined) throw new Error(`docs/proxies.md has no block ${name}`);
  return block;
}

const PROXIES: readonly ReverseProxyName[] = ["nginx", "haproxy", "varnish"];
await installMissing(["nginx", "haproxy", "varnishd"]);

/** A gateway, a proxy with this setting, and two servers of one service. */
async function scene(test: TestContext, proxy: ReverseProxyName, setting: string, listener: RequestListener) {
  const behind = [await serviceOn(listener), await serviceOn(listener)];
  const { port } = await startFor(test, () => startReverseProxy(proxy, { behind, setting }));
  return gatewayBefore(port);
}

describe.each(PROXIES)("%s between the gateway and the service", (proxy) => {
  /** Does the effect, and loses the first answer. */
  function losing() {
    const fences: (string | undefined)[] = [];
    const listener: RequestListener = async (req, res) => {
      await read(req);
      fences.push(req.headers["nevertwice-fence"] as string | undefined);
      if (fences.length === 1) req.socket.destroy();
      else res.writeHead(201).end("done");
    };
    return { fences, listener };
  }

  test("repeats a request with the setting that the page warns of: two effects of one 201", async (context) => {
    const { fences, listener } = losing();
    const { send } = await scene(context, proxy, settingOf(`${proxy} repeats`), listener);
    expect((await send({ key: "k" })).status).toBe(201);
    expect(fences).toHaveLength(2);
    expect(fences[1]).toBe(fences[0]);
  });

  test("sends a request once with the setting of the page, and the key is held", async (context) => {
    const { fences, listener } = losing();
    const { send } = await scene(context, proxy, settingOf(`${proxy} once`), listener);
    const lost = await send({ key: "k" });
    expect([lost.status, lost.headers["x-should-retry"]]).toEqual([502, "false"]);
    expect((await send({ key: "k" })).code()).toBe("unknown");
    expect(fences).toHaveLength(1);
  });

  test("repeats a request, and the check of the page makes one effect of it", async (context) => {
    const schema = `proxies_${proxy}`;
    const pool = new pg.Pool({
      connectionString: sharedUrl(context, "postgres"),
      options: `-c search_path=${schema}`,
    });
    onTestFinished(() => pool.end());
    await pool.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
    await createTables(pool);
    const service = createService(pool);
    let requests = 0;
    // The server answers, and the connection to the proxy breaks before the answer has arrived.
    const listener: RequestListener = (req, res) => {
      if (++requests === 1) Object.assign(res, { writeHead: () => req.socket.destroy() });
      service.emit("request", req, res);
    };
    const { send } = await scene(context, proxy, settingOf(`${proxy} repeats`), listener);
    const answer = await send({ key: "k" });
    expect([answer.status, JSON.parse(answer.text)]).toEqual([201, { id: "1", amount: 7 }]);
    expect(requests).toBe(2);
    expect((await pool.query("SELECT amount FROM payments")).rows).toEqual([{ amount: 7 }]);
  });
});

describe.each(PROXIES)("%s before the gateway", (proxy) => {
  test("does not repeat a request without a key whose service was lost", async (context) => {
    let effects = 0;
    const upstream = await serviceOn(async (req) => {
      await read(req);
      effects++;
      req.socket.destroy();
    });
    const gateway = await gatewayBefore(upstream);
    const host = proxy === "nginx" ? settingOf("nginx before") : "";
    const setting = `${settingOf(`${proxy} repeats`)}\n${host}`;
    const behind = [gateway.port, gateway.port];
    const { port } = await startFor(context, () => startReverseProxy(proxy, { behind, setting }));
    const { status, code } = await send(port, {});
    expect([status, code(), effects]).toEqual([422, "upstream-lost", 1]);
  });

  test("repeats a request whose answer was lost, and gets that answer: one effect", async (context) => {
    let effects = 0;
    const upstream = await serviceOn(async (req, res) => {
      await read(req);
      res.writeHead(201).end(`effect ${++effects}`);
    });
    const gateway = await gatewayBefore(upstream);
    const network = await startProxy(gateway.port);
    onTestFinished(() => network.stop());
    const host = proxy === "nginx" ? settingOf("nginx before") : "";
    const setting = `${settingOf(`${proxy} repeats`)}\n${host}`;
    // nginx repeats on another server only, so it gets the same one twice.
    const behind = [network.port, network.port];
    const { port } = await startFor(context, () => startReverseProxy(proxy, { behind, setting }));
    network.cutReply();
    const answer = await send(port, { key: "k" });
    expect([answer.status, answer.text, answer.headers[REPLAYED]]).toEqual([201, "effect 1", "true"]);
    expect(effects).toBe(1);
  });
});

/** Calls work through the HTTP door of a library, for libraries that have no door for functions. */

/** The methods of `open` for a library that only has `openHttp`. */
export async function callOverHttp(openHttp, options) {
  const works = new Map();
  let lastCall = 0;
  const server = await openHttp({
    ...options,
    isScoped: true,
    async handle(request) {
      const work = works.get(request.headers["x-call"]);
      return { status: 200, headers: {}, json: { value: await work(request.body) } };
    },
  });

  async function send({ key, body, operation = "charge", tenant = "tenant-a" }, work) {
    const call = String(++lastCall);
    works.set(call, work);
    const response = await fetch(`${server.url}/${operation}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "idempotency-key": key,
        authorization: tenant,
        "x-call": call,
      },
      body: JSON.stringify(body ?? {}),
    });
    const text = await response.text();
    if (response.ok) return { value: JSON.parse(text).value };
    const refusal = REFUSALS[response.status] ?? (response.status >= 500 ? "failed" : "other");
    return { refusal, message: `${response.status} ${text}` };
  }

  return {
    async call(request, work) {
      const giveUpAt = performance.now() + (request.waitMs ?? 10_000);
      for (;;) {
        const answer = await send(request, work).catch((error) => ({
          refusal: "other",
          message: String(error.cause ?? error),
        }));
        // The client retries a request that is still running, as its 409 asks for.
        if (answer.refusal !== "pending" || request.polls === false || performance.now() > giveUpAt)
          return answer;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    },
    close: () => server.close(),
  };
}

const REFUSALS = { 409: "pending", 422: "conflict", 417: "conflict", 503: "unavailable" };

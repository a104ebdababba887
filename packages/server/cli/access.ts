/** `nevertwice access`: who may call the server. It works on the store, so whoever can open that decides. */
import { ROLES, type Role } from "../src/access.ts";
import {
  type Call,
  type Command,
  complain,
  EXIT,
  type Exit,
  JSON_FLAG,
  print,
  UsageError,
} from "./command.ts";
import { CONFIG_FLAG, configFrom, settingsFlags } from "./settings-flags.ts";
import { agoText, paint, table } from "./terminal.ts";

const FLAGS = { ...settingsFlags(["store", "namespace"]), ...CONFIG_FLAG, ...JSON_FLAG };

export const accessCommand: Command = {
  summary: "makes, lists and revokes access tokens",
  actions: {
    create: {
      summary: "Makes an access token and shows it, this once.",
      flags: {
        name: { value: "NAME", what: "what it is called in lists and logs" },
        role: { value: ROLES.join("|"), what: "what it may do", default: "service" },
        scope: {
          value: "SCOPE",
          what: "whose keys it uses: tokens with one scope share them; default its name",
        },
        ...FLAGS,
      },
      notes: ["service claims, marks and holds · operator sees and decides about keys · auditor only reads"],
      run: create,
    },
    list: { summary: "Lists the tokens, without their secrets.", flags: FLAGS, run: list },
    revoke: {
      summary: "Revokes a token by its ID; every copy of the server knows it within 5 seconds.",
      takes: ["ID"],
      flags: FLAGS,
      run: revoke,
    },
  },
};

async function create(call: Call): Promise<Exit> {
  const [name, role, scope] = [call.text("name"), call.text("role"), call.text("scope")];
  if (!name) throw new UsageError("--name NAME is missing: who is the token for?");
  if (!ROLES.includes(role as Role))
    throw new UsageError(`--role is ${ROLES.slice(0, -1).join(", ")} or ${ROLES.at(-1)}.`);
  const { namespace } = configFrom(call);
  return withAccess(call, async (access) => {
    const made = await access.create({ name, role: role as Role, namespace, scope });
    if (call.has("json")) print(JSON.stringify(made));
    else {
      print(made.token);
      complain(
        `This is shown once. ${made.name} is ${made.role} in ${made.namespace}, scope ${made.scope}; \`nevertwice access revoke ${made.id}\` ends it.`,
      );
    }
    return EXIT.ok;
  });
}

function list(call: Call): Promise<Exit> {
  return withAccess(call, async (access) => {
    const tokens = await access.list();
    if (call.has("json")) print(JSON.stringify({ tokens }));
    else if (tokens.length === 0)
      print(
        "There is no access token. `nevertwice access create` makes one; from the first on, every caller needs one.",
      );
    else {
      const now = Date.now();
      const rows = tokens.map(({ id, name, role, namespace, scope, createdAt }) => [
        id,
        name,
        role,
        namespace,
        scope,
        agoText(Date.parse(createdAt), now),
      ]);
      for (const line of table(["id", "name", "role", "namespace", "scope", "made"], rows)) print(line);
    }
    return EXIT.ok;
  });
}

function revoke(call: Call): Promise<Exit> {
  const [id = ""] = call.args;
  return withAccess(call, async (access) => {
    const isRevoked = await access.revoke(id);
    if (call.has("json")) print(JSON.stringify({ id, revoked: isRevoked }));
    else if (isRevoked) print(`${paint("green", "revoked")} ${id}`);
    else
      complain(
        `There is no access token ${JSON.stringify(id)}; \`nevertwice access list\` says which there are.`,
      );
    return isRevoked ? EXIT.ok : EXIT.failed;
  });
}

async function withAccess(
  call: Call,
  work: (access: import("../src/access.ts").Access) => Promise<Exit>,
): Promise<Exit> {
  const { store: url, namespace } = configFrom(call);
  const [{ openStore }, { createAccess }] = await Promise.all([
    import("nevertwice/stores/open"),
    import("../src/access.ts"),
  ]);
  const store = await openStore(url);
  try {
    return await work(createAccess({ store, namespace }));
  } finally {
    await store.close();
  }
}

/** `nevertwice access`: creates, lists and revokes access tokens. It works on the store, so it needs no token itself. */
import { ROLES, type Role } from "../src/access.ts";
import {
  type Command,
  type CommandCall,
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
  summary: "create, list and revoke access tokens",
  actions: {
    create: {
      summary: "Creates an access token and prints it once.",
      flags: {
        name: { value: "NAME", what: "the name of the token in lists and logs" },
        role: { value: ROLES.join("|"), what: "what the token may do", default: "service" },
        scope: {
          value: "SCOPE",
          what: "the owner of its keys: tokens with the same scope share keys; default: the name",
        },
        ...FLAGS,
      },
      notes: [
        "service: claims, events and holds · operator: reads keys and decides about them · auditor: reads only",
      ],
      run: create,
    },
    list: { summary: "Lists the access tokens, without their secrets.", flags: FLAGS, run: list },
    revoke: {
      summary: "Revokes a token by its ID. All servers refuse it within 5 seconds.",
      takes: ["ID"],
      flags: FLAGS,
      run: revoke,
    },
  },
};

async function create(call: CommandCall): Promise<Exit> {
  const [name, role, scope] = [call.text("name"), call.text("role"), call.text("scope")];
  if (!name) throw new UsageError("--name NAME is missing.");
  if (!ROLES.includes(role as Role))
    throw new UsageError(`--role must be ${ROLES.slice(0, -1).join(", ")} or ${ROLES.at(-1)}.`);
  const { namespace } = configFrom(call);
  return withAccess(call, async (access) => {
    const made = await access.create({ name, role: role as Role, namespace, scope });
    if (call.has("json")) print(JSON.stringify(made));
    else {
      print(made.token);
      complain(
        `The token is shown only once. Name ${made.name}, role ${made.role}, namespace ${made.namespace}, scope ${made.scope}. To revoke it: nevertwice access revoke ${made.id}`,
      );
    }
    return EXIT.ok;
  });
}

function list(call: CommandCall): Promise<Exit> {
  return withAccess(call, async (access) => {
    const tokens = await access.list();
    if (call.has("json")) print(JSON.stringify({ tokens }));
    else if (tokens.length === 0)
      print(
        "There are no access tokens. Create one with `nevertwice access create`; from then on, every caller needs one.",
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
      for (const line of table(["id", "name", "role", "namespace", "scope", "created"], rows)) print(line);
    }
    return EXIT.ok;
  });
}

function revoke(call: CommandCall): Promise<Exit> {
  const [id = ""] = call.args;
  return withAccess(call, async (access) => {
    const isRevoked = await access.revoke(id);
    if (call.has("json")) print(JSON.stringify({ id, revoked: isRevoked }));
    else if (isRevoked) print(`${paint("green", "revoked")} ${id}`);
    else
      complain(
        `No access token has the ID ${JSON.stringify(id)}; \`nevertwice access list\` lists all of them.`,
      );
    return isRevoked ? EXIT.ok : EXIT.failed;
  });
}

async function withAccess(
  call: CommandCall,
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

/** `nevertwice access`: creates, lists and revokes access tokens. It works on the store, so it needs no token itself. */
import { type Access, ROLES, type Role } from "../src/access.ts";
import {
  type Command,
  type CommandCall,
  type CommandResult,
  JSON_FLAG,
  Refused,
  UsageError,
} from "./command.ts";
import { requireExistingFile } from "./existing-file.ts";
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

async function create(call: CommandCall): Promise<CommandResult> {
  const [name, role, scope] = [call.text("name"), call.text("role"), call.text("scope")];
  if (!name) throw new UsageError("--name NAME is missing.");
  const { namespace } = configFrom(call);
  return withAccess(call, async (access) => {
    const made = await access.create({ name, role: role as Role, namespace, scope });
    return {
      data: made,
      // Only the token is on standard output, so that a script can store it.
      lines: [made.token],
      remarks: [
        `The token is shown only once. Name ${made.name}, role ${made.role}, namespace ${made.namespace}, scope ${made.scope}. To revoke it: nevertwice access revoke ${made.id}`,
      ],
    };
  });
}

function list(call: CommandCall): Promise<CommandResult> {
  requireExistingFile(configFrom(call).store);
  return withAccess(call, async (access) => {
    const tokens = await access.list();
    return { data: { tokens }, lines: tokenLines(tokens) };
  });
}

function tokenLines(tokens: Awaited<ReturnType<Access["list"]>>): readonly string[] {
  if (tokens.length === 0)
    return [
      "There are no access tokens. Create one with `nevertwice access create`; from then on, every caller needs one.",
    ];
  const now = Date.now();
  const rows = tokens.map(({ id, name, role, namespace, scope, createdAt }) => [
    id,
    name,
    role,
    namespace,
    scope,
    agoText(Date.parse(createdAt), now),
  ]);
  return table(["id", "name", "role", "namespace", "scope", "created"], rows);
}

function revoke(call: CommandCall): Promise<CommandResult> {
  const [id = ""] = call.args;
  requireExistingFile(configFrom(call).store);
  return withAccess(call, async (access) => {
    if (await access.revoke(id))
      return { data: { id, revoked: true }, lines: [`${paint("green", "revoked")} ${id}`] };
    throw new Refused(
      "not-found",
      `No access token has the ID ${JSON.stringify(id)}; \`nevertwice access list\` lists all of them.`,
    );
  });
}

async function withAccess(
  call: CommandCall,
  work: (access: Access) => Promise<CommandResult>,
): Promise<CommandResult> {
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

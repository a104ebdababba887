/** `nevertwice completion`: prints a script that lets a shell complete commands, actions and flags. */
import { type Action, type Command, type CommandMap, JSON_FLAG } from "./command.ts";

type Shell = "bash" | "zsh" | "fish";

const SHELLS = ["bash", "zsh", "fish"] as const;

export function completionCommand(commands: () => CommandMap): Command {
  return {
    summary: "print a completion script for your shell",
    actions: {
      "": {
        summary: "Prints a script that completes commands, actions and flags.",
        takes: [SHELLS],
        flags: JSON_FLAG,
        notes: [
          "bash: source <(nevertwice completion bash)",
          "zsh:  source <(nevertwice completion zsh)",
          "fish: nevertwice completion fish | source",
        ],
        async run(call) {
          const shell = call.args[0] as Shell;
          const script = SCRIPTS[shell](completionPoints(commands()));
          return { data: { shell, script }, lines: [script] };
        },
      },
    },
  };
}

/** The words before the one to complete, and what may follow them. */
interface CompletionPoint {
  readonly words: readonly string[];
  readonly next: readonly string[];
  /** The flags; one with `isSwitch` takes no value. */
  readonly flags: readonly { readonly name: string; readonly what: string; readonly isSwitch: boolean }[];
}

function completionPoints(commands: CommandMap): readonly CompletionPoint[] {
  const names = [...Object.keys(commands), "help", "version"];
  return [
    { words: [], next: names, flags: [] },
    { words: ["help"], next: Object.keys(commands), flags: [] },
    ...Object.entries(commands).flatMap(([name, { actions }]) => {
      const words = Object.keys(actions).filter(Boolean);
      const only = actions[""];
      const own =
        only === undefined ? { words: [name], next: [], flags: [] } : toCompletionPoint([name], only);
      return [
        { ...own, next: [...words, ...own.next] },
        ...words.map((word) => toCompletionPoint([name, word], actions[word] as Action)),
      ];
    }),
  ];
}

function toCompletionPoint(words: readonly string[], { takes = [], flags }: Action): CompletionPoint {
  const all = { ...flags, help: { what: "print the usage" } };
  return {
    words,
    next: takes.flatMap((taken) => (typeof taken === "string" ? [] : taken)),
    flags: Object.entries(all).map(([name, flag]) => ({
      name,
      what: flag.what,
      isSwitch: !("value" in flag),
    })),
  };
}

const SCRIPTS: Readonly<Record<Shell, (places: readonly CompletionPoint[]) => string>> = {
  bash: bashScript,
  zsh: (places) =>
    ["autoload -Uz compinit bashcompinit", "compinit -i; bashcompinit", bashScript(places)].join("\n"),
  fish: fishScript,
};

/** For the value of a flag the shell offers files. */
function bashScript(places: readonly CompletionPoint[]): string {
  const rows = places.map(({ words, next, flags }) => {
    const offered = [...next, ...flags.map(({ name }) => `--${name}`)].join(" ");
    return `    ${JSON.stringify(words.join(" "))}) offered=${JSON.stringify(offered)} ;;`;
  });
  const valued = new Set(
    places.flatMap(({ flags }) => flags.filter(({ isSwitch }) => !isSwitch)).map(({ name }) => `--${name}`),
  );
  return `_nevertwice() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" place="" offered="" each
  case "$before" in
    ${[...valued].join("|")}) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  for each in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$each" in
      -*) break ;;
    esac
    case "\${place:+$place }$each" in
      ${places
        .filter(({ words }) => words.length > 0)
        .map(({ words }) => JSON.stringify(words.join(" ")))
        .join("|")}) place="\${place:+$place }$each" ;;
      *) break ;;
    esac
  done
  case "$place" in
${rows.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
  if [ \${#COMPREPLY[@]} -eq 0 ]; then COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -F _nevertwice nevertwice`;
}

function fishScript(places: readonly CompletionPoint[]): string {
  const quoted = (text: string) => `'${text.replace(/[\\']/g, "\\$&")}'`;
  const lines = places.flatMap(({ words, next, flags }) => {
    const [command, action] = words;
    const at = [
      command === undefined ? "__fish_use_subcommand" : `__fish_seen_subcommand_from ${command}`,
      ...(action === undefined ? [] : [`__fish_seen_subcommand_from ${action}`]),
      ...(action === undefined && command !== undefined && next.length > 0
        ? [`not __fish_seen_subcommand_from ${next.join(" ")}`]
        : []),
    ].join("; and ");
    return [
      ...(next.length > 0 ? [`complete -c nevertwice -f -n ${quoted(at)} -a ${quoted(next.join(" "))}`] : []),
      ...flags.map(
        ({ name, what, isSwitch }) =>
          `complete -c nevertwice -n ${quoted(at)} -l ${name}${isSwitch ? "" : " -r"} -d ${quoted(what)}`,
      ),
    ];
  });
  return lines.join("\n");
}

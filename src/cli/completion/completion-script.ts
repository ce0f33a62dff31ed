/**
 * Completion scripts for three shells, from the tree of commands. Names come from the store.
 *
 * Written by hand: the libraries (`@bomb.sh/tab`, `omelette`) start the command at every press of
 * the Tab key. These scripts start it only for names in the store.
 */
import { unreachable } from "../../core/base/invariant.ts";
import type { CommandFacts, OptionFacts, ValueFacts } from "./command-tree.ts";
import { writeBash } from "./completion-bash.ts";
import { joinNames, NAME_LISTS, SCRIPTS } from "./completion-names.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export function writeCompletion(shell: Shell, commands: readonly CommandFacts[]): string {
  switch (shell) {
    case "bash":
      return writeBash(commands);
    case "zsh":
      return writeZsh(commands);
    case "fish":
      return writeFish(commands);
    default:
      return unreachable(shell);
  }
}

function writeZsh(commands: readonly CommandFacts[]): string {
  const list = commands.map(
    ({ name, about }) => `    ${quote(`${name}:${about.replaceAll(":", "\\:")}`)}`,
  );
  const functions = SCRIPTS.map(
    ([name, script]) => `_sluice_${name}() {
  local -a names
  names=(\${(f)"$(${script})"})
  compadd -a names
}
`,
  );
  const firsts = commands
    .filter((command) => command.commands.length > 0)
    .map(({ name, arguments: [first], commands: own }) => {
      const lister = first === undefined ? "" : `  ${nameZshAction(first)}\n`;
      return `_sluice_first_${name}() {\n${lister}  compadd ${joinNames(own)}\n}\n`;
    });
  return `#compdef sluice
${[...functions, ...firsts].join("\n")}
_sluice() {
  local -a commands
  commands=(
${list.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command="\${words[2]}"
  shift words
  (( CURRENT-- ))
  case "$command\${words[2]:+/\${words[2]}}" in
${commands.flatMap(writeZshSubs).join("\n")}
  esac
  case "$command" in
${commands.map((command) => `    ${command.name}) ${writeZshArguments(command)} ;;`).join("\n")}
  esac
}

if [[ "\${funcstack[1]}" == _sluice ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
`;
}

function writeZshSubs({ name, commands }: CommandFacts): string[] {
  return commands.map(
    (one) =>
      `    ${name}/${one.name}) if (( CURRENT > 2 )); then shift words; (( CURRENT-- )); ${writeZshArguments(one)}; return; fi ;;`,
  );
}

function writeZshArguments({ name, options, arguments: own, commands }: CommandFacts): string {
  const specs = [
    ...options.map(describeZshOption),
    ...own.map((value) => `${value.isRepeated ? "*" : ""}:${value.kind}:${nameZshAction(value)}`),
  ];
  if (commands.length > 0) {
    const first = `:command:_sluice_first_${name}`;
    specs.splice(options.length, own.length === 0 ? 0 : 1, first);
  }
  return `_arguments ${specs.map(quote).join(" \\\n      ")}`;
}

function describeZshOption({ names, about, value }: OptionFacts): string {
  const name = names.at(-1) ?? "";
  const text = about.replace(/[[\]:]/g, "\\$&");
  return value === null ? `${name}[${text}]` : `${name}=[${text}]:value:${nameZshAction(value)}`;
}

function nameZshAction({ kind, choices }: ValueFacts): string {
  if (kind === "choice") return `(${choices.join(" ")})`;
  if (kind === "file") return "_files";
  return kind === "other" ? " " : `_sluice_${NAME_LISTS[kind]}`;
}

function writeFish(commands: readonly CommandFacts[]): string {
  const functions = SCRIPTS.map(
    ([name, script]) => `function __sluice_${name}\n    ${script}\nend\n`,
  );
  const lines = commands.flatMap((command) => {
    const seen = `__fish_seen_subcommand_from ${command.name}`;
    const below = joinNames(command.commands);
    const alone = below === "" ? seen : `${seen}; and not __fish_seen_subcommand_from ${below}`;
    return [
      `complete -c sluice -n __fish_use_subcommand -f -a ${command.name} -d ${quoteFish(command.about)}`,
      ...writeFishCommand(command, alone),
      ...command.commands.flatMap((one) => [
        `complete -c sluice -n '${alone}' -f -a ${one.name} -d ${quoteFish(one.about)}`,
        ...writeFishCommand(one, `${seen}; and __fish_seen_subcommand_from ${one.name}`),
      ]),
    ];
  });
  return `# fish completion for sluice
${functions.join("\n")}
${lines.join("\n")}
`;
}

function writeFishCommand({ options, arguments: own }: CommandFacts, condition: string): string[] {
  return [
    ...options.map(
      (option) => `complete -c sluice -n '${condition}' ${describeFishOption(option)}`,
    ),
    ...own.flatMap((value) => {
      const offered = listFishWords(value);
      return offered === null ? [] : [`complete -c sluice -n '${condition}' -f -a ${offered}`];
    }),
  ];
}

function describeFishOption({ names, about, value }: OptionFacts): string {
  const flags = names.map((name) =>
    name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`,
  );
  const offered = value === null ? null : listFishWords(value);
  const taken = value === null ? [] : [value.kind === "file" ? "-r -F" : "-x"];
  const words = offered === null ? [] : [`-a ${offered}`];
  return [...flags, ...taken, ...words, `-d ${quoteFish(about)}`].join(" ");
}

function listFishWords({ kind, choices }: ValueFacts): string | null {
  if (kind === "choice") return quoteFish(choices.join(" "));
  return kind === "file" || kind === "other" ? null : `'(__sluice_${NAME_LISTS[kind]})'`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function quoteFish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

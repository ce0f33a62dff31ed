/** Completion scripts for three shells, from the tree of commands. Batch ids come from the store. */
import { unreachable } from "../core/invariant.ts";
import type { ArgumentFacts, CommandFacts, OptionFacts } from "./command-tree.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** Prints the ids of the newest batches, one a line; silent where there is no store. */
const LIST_IDS = `sluice list --json --limit 100 2>/dev/null | sed -n 's/^{"batch":"\\([^"]*\\)".*/\\1/p'`;

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

function writeBash(commands: readonly CommandFacts[]): string {
  const names = commands.map(({ name }) => name).join(" ");
  const options = commands.map(
    ({ name, options: own }) =>
      `    ${name}) words="${own.flatMap((option) => option.names).join(" ")}" ;;`,
  );
  const values = commands.flatMap(({ name, options: own }) =>
    own
      .filter(({ takesValue }) => takesValue)
      .map(
        (option) =>
          `    ${option.names.map((flag) => `${name}:${flag}`).join("|")}) ${completeBash(option)} return ;;`,
      ),
  );
  const positional = commands.flatMap(({ name, arguments: [first] }) =>
    first === undefined ? [] : [`    ${name}) ${completeBashArgument(first)} ;;`],
  );
  return `# bash completion for sluice
_sluice_ids() {
  ${LIST_IDS}
}

_sluice() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="" command="" word words=""
  COMPREPLY=()
  (( COMP_CWORD > 0 )) && previous="\${COMP_WORDS[COMP_CWORD-1]}"
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case " ${names} " in *" $word "*) command="$word"; break ;; esac
  done
  if [[ -z "$command" ]]; then
    COMPREPLY=($(compgen -W "${names} --help --version" -- "$current"))
    return
  fi
  case "$command:$previous" in
${values.join("\n")}
  esac
  if [[ "$current" == -* ]]; then
    case "$command" in
${options.join("\n")}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case "$command" in
${positional.join("\n")}
  esac
}

complete -o filenames -F _sluice sluice
`;
}

function completeBash({ choices, takesFile }: OptionFacts): string {
  if (choices.length > 0) return `COMPREPLY=($(compgen -W "${choices.join(" ")}" -- "$current"));`;
  return takesFile ? `COMPREPLY=($(compgen -f -- "$current"));` : "";
}

function completeBashArgument({ kind, choices }: ArgumentFacts): string {
  if (kind === "batch") return `COMPREPLY=($(compgen -W "$(_sluice_ids)" -- "$current"))`;
  if (kind === "choice") return `COMPREPLY=($(compgen -W "${choices.join(" ")}" -- "$current"))`;
  return `COMPREPLY=($(compgen -f -- "$current"))`;
}

function writeZsh(commands: readonly CommandFacts[]): string {
  const list = commands.map(
    ({ name, about }) => `    ${quote(`${name}:${about.replaceAll(":", "\\:")}`)}`,
  );
  const cases = commands.map(({ name, options, arguments: own }) => {
    const specs = [
      ...options.map(describeZshOption),
      ...own.map(
        (argument) => `${argument.isRepeated ? "*" : ""}:${completeZshArgument(argument)}`,
      ),
    ];
    return `    ${name}) _arguments ${specs.map(quote).join(" \\\n      ")} ;;`;
  });
  return `#compdef sluice
_sluice_ids() {
  local -a ids
  ids=(\${(f)"$(${LIST_IDS})"})
  compadd -a ids
}

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
  case "$command" in
${cases.join("\n")}
  esac
}

if [[ "\${funcstack[1]}" == _sluice ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
`;
}

function describeZshOption({ names, about, takesValue, choices, takesFile }: OptionFacts): string {
  const name = names.at(-1) ?? "";
  const text = about.replace(/[[\]:]/g, "\\$&");
  if (!takesValue) return `${name}[${text}]`;
  const action = choices.length > 0 ? `(${choices.join(" ")})` : takesFile ? "_files" : " ";
  return `${name}=[${text}]:value:${action}`;
}

function completeZshArgument({ kind, choices }: ArgumentFacts): string {
  if (kind === "batch") return "batch:_sluice_ids";
  return kind === "choice" ? `choice:(${choices.join(" ")})` : "file:_files";
}

function writeFish(commands: readonly CommandFacts[]): string {
  const lines = commands.flatMap((command) => {
    const isThis = `-n '__fish_seen_subcommand_from ${command.name}'`;
    return [
      `complete -c sluice -n __fish_use_subcommand -f -a ${command.name} -d ${quoteFish(command.about)}`,
      ...command.options.map(
        (option) => `complete -c sluice ${isThis} ${describeFishOption(option)}`,
      ),
      ...command.arguments.flatMap((argument) => {
        const action = completeFishArgument(argument);
        return action === null ? [] : [`complete -c sluice ${isThis} -f -a ${action}`];
      }),
    ];
  });
  return `# fish completion for sluice
function __sluice_ids
    ${LIST_IDS}
end

${lines.join("\n")}
`;
}

function describeFishOption({ names, about, takesValue, choices, takesFile }: OptionFacts): string {
  const flags = names.map((name) =>
    name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`,
  );
  const value = [
    ...(takesValue ? [takesFile ? "-r -F" : "-x"] : []),
    ...(choices.length > 0 ? [`-a ${quoteFish(choices.join(" "))}`] : []),
  ];
  return [...flags, ...value, `-d ${quoteFish(about)}`].join(" ");
}

function completeFishArgument({ kind, choices }: ArgumentFacts): string | null {
  if (kind === "batch") return "'(__sluice_ids)'";
  return kind === "choice" ? quoteFish(choices.join(" ")) : null;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function quoteFish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** The completion script for bash. */
import type { CommandFacts, ValueFacts } from "./command-tree.ts";
import { joinNames, NAME_LISTS, SCRIPTS } from "./completion-names.ts";

interface NamedCommand extends CommandFacts {
  /** `dead/show` for a sub-command. */
  readonly path: string;
}

function flatten(commands: readonly CommandFacts[]): NamedCommand[] {
  return commands.flatMap((command) => [
    { ...command, path: command.name },
    ...command.commands.map((one) => ({ ...one, path: `${command.name}/${one.name}` })),
  ]);
}

export function writeBash(commands: readonly CommandFacts[]): string {
  const all = flatten(commands);
  const names = joinNames(commands);
  const functions = SCRIPTS.map(([name, script]) => `_sluice_${name}() {\n  ${script}\n}\n`);
  return `# bash completion for sluice
${functions.join("\n")}
_sluice() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="" command="" word words="" position=0 skip=0
  COMPREPLY=()
  (( COMP_CWORD > 0 )) && previous="\${COMP_WORDS[COMP_CWORD-1]}"
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if (( skip )); then skip=0; continue; fi
    if [[ -z "$command" ]]; then
      case " ${names} " in *" $word "*) command="$word" ;; esac
      continue
    fi
    case "$command:$word" in
${commands.flatMap(enterSubCommand).join("\n")}
      ${all.flatMap(listValueFlags).join("|")}) skip=1; continue ;;
    esac
    [[ "$word" == -* ]] || position=$((position + 1))
  done
  if [[ -z "$command" ]]; then
    COMPREPLY=($(compgen -W "${names} --help --version" -- "$current"))
    return
  fi
  case "$command:$previous" in
${all.flatMap(completeValues).join("\n")}
  esac
  if [[ "$current" == -* ]]; then
    case "$command" in
${all.map(listFlags).join("\n")}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case "$command:$position" in
${all.flatMap(completeArguments).join("\n")}
  esac
}

complete -o filenames -F _sluice sluice
`;
}

/** `sluice dead show`: the first argument may select a sub-command. */
function enterSubCommand({ name, commands }: CommandFacts): string[] {
  if (commands.length === 0) return [];
  const words = commands.map((one) => `${name}:${one.name}`).join("|");
  return [`      ${words}) (( position == 0 )) && { command="$command/$word"; continue; } ;;`];
}

function listValueFlags({ path, options }: NamedCommand): string[] {
  return options
    .filter(({ value }) => value !== null)
    .flatMap(({ names }) => names.map((flag) => `${path}:${flag}`));
}

function completeValues({ path, options }: NamedCommand): string[] {
  return options.flatMap(({ names, value }) => {
    if (value === null) return [];
    const flags = names.map((flag) => `${path}:${flag}`).join("|");
    return [`    ${flags}) ${completeValue(value)} return ;;`];
  });
}

function listFlags({ path, options }: NamedCommand): string {
  return `      ${path}) words="${options.flatMap(({ names }) => names).join(" ")}" ;;`;
}

const NOTHING: ValueFacts = { kind: "other", choices: [] };

/** The first argument may also be a sub-command. */
function completeArguments({ path, arguments: own, commands }: NamedCommand): string[] {
  const values = own.length === 0 && commands.length > 0 ? [NOTHING] : own;
  return values.map((value, at) => {
    const place = "isRepeated" in value && value.isRepeated ? "*" : at;
    return `    ${path}:${place}) ${completeValue(value, at === 0 ? joinNames(commands) : "")} ;;`;
  });
}

/** Also offers these words. */
function completeValue({ kind, choices }: ValueFacts, also = ""): string {
  const offer = (words: string): string =>
    `COMPREPLY=($(compgen -W "${`${words} ${also}`.trim()}" -- "$current"));`;
  if (kind === "choice") return offer(choices.join(" "));
  if (kind === "file") return `COMPREPLY=($(compgen -f -- "$current"));`;
  if (kind === "other") return also === "" ? "" : offer("");
  return offer(`$(_sluice_${NAME_LISTS[kind]})`);
}

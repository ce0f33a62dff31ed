/** `sluice ledger key`: prints or rotates the key that signs ledgers here. */
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import { type KeyFile, openKeyFile, rotateKeyFile } from "../../../ledger/keys/key-file.ts";
import { viewKey } from "../../../views/ledger.ts";
import { formatInstant } from "../../../ports/clock.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { loadConfig } from "../../config/config.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson } from "../../output/inert-text.ts";
import { showPath } from "../../output/show-path.ts";
import { readSubFlags } from "../../flags/sub-command.ts";

interface KeyFlags extends CommonFlags {
  readonly rotate?: boolean;
}

export function addKeyCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("key")
    .summary("print the public key that signs ledgers here")
    .description(
      "Print the public key that signs ledgers here: give it to the people who verify them. --rotate makes " +
        "a new key that the old one signs, so verifiers that trust the old key accept the new one. It " +
        "does not revoke the old key: tell verifiers to trust only the new key from then on. If the old " +
        "key was stolen, move its file away instead: the next command makes an independent key.",
    )
    .option("--rotate", "replace the key by a new one")
    .action(async () => {
      cli.finish(await showKey(cli, readSubFlags<KeyFlags>(command)));
    });
  addExamples(command, [
    ["sluice ledger key > key.pem", "for `ledger verify --trust key.pem`"],
    ["sluice ledger key --rotate", "then trust only the new key"],
  ]);
}

async function showKey(cli: Cli, flags: KeyFlags): Promise<number> {
  const { ledgerKey } = await loadConfig(flags, cli.env);
  if (ledgerKey === null) {
    throw new SluiceError("LEDGER_KEY", "nothing is signed here: there is no key", {
      hint: "Set ledgerKey in sluice.config.ts, or SLUICE_LEDGER_KEY, to the path of a key file.",
    });
  }
  const at = formatInstant(cli.clock.wallMs());
  const { key } = flags.rotate === true ? rotate(cli, ledgerKey, at) : openKeyFile(ledgerKey, at);
  const view = viewKey(key);
  if (flags.json === true) cli.out.line(formatJson(view));
  else {
    cli.err.line(`key ${key.id} of ${showPath(ledgerKey)}`);
    await cli.out.write(view.pem);
  }
  return EXIT.ok;
}

function rotate(cli: Cli, path: string, at: string): KeyFile {
  openKeyFile(path, at);
  const { keyFile, oldPath } = rotateKeyFile(path, at, { keepOld: true });
  if (oldPath !== null)
    cli.err.line(`the old key is now ${showPath(oldPath)}: keep it or destroy it`);
  cli.err.line(
    "verifiers that trust the old key still accept what it signs: tell them to trust only the new key",
  );
  return keyFile;
}

/** `sluice ledger key`: the key that signs here, and putting a new one in its place. */
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import { type KeyFile, openKeyFile, rotateKeyFile } from "../../../ledger/keys/key-file.ts";
import { computeFingerprint } from "../../../ledger/format/signing-key.ts";
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
    .summary("show the public key that signs here")
    .description(
      "Prints the public key that signs ledgers here: give it to those who verify them. With --rotate a " +
        "new key takes its place, introduced by the old one, so that who trusts that one trusts it, too. " +
        "That does not retire the old key: who trusts it goes on trusting what it signs. Have those who " +
        "verify name only the new key as trusted from then on. If it was stolen, move its file away " +
        "instead: a new key is made, which it has not introduced.",
    )
    .option("--rotate", "put a new key in the place of this one")
    .action(async () => {
      cli.finish(await showKey(cli, readSubFlags<KeyFlags>(command)));
    });
  addExamples(command, [
    ["sluice ledger key > key.pem", "for `ledger verify --key key.pem`"],
    ["sluice ledger key --rotate", "then have the new one trusted, and only that"],
  ]);
}

async function showKey(cli: Cli, flags: KeyFlags): Promise<number> {
  const { ledgerKey } = await loadConfig(flags, cli.env);
  if (ledgerKey === null) {
    throw new SluiceError("NO_LEDGER_KEY", "nothing is signed here: there is no key", {
      hint: "Set ledgerKey in sluice.config.ts, or SLUICE_LEDGER_KEY, to the path of a key file.",
    });
  }
  const at = formatInstant(cli.clock.wallMs());
  const { key } = flags.rotate === true ? rotate(cli, ledgerKey, at) : openKeyFile(ledgerKey, at);
  const pem = String(key.publicKey.export({ type: "spki", format: "pem" }));
  const fingerprint = computeFingerprint(key.publicKey);
  if (flags.json === true) cli.out.line(formatJson({ id: key.id, fingerprint, pem }));
  else {
    cli.err.line(`key ${key.id} of ${showPath(ledgerKey)}`);
    await cli.out.write(pem);
  }
  return EXIT.ok;
}

function rotate(cli: Cli, path: string, at: string): KeyFile {
  openKeyFile(path, at);
  const { keyFile, oldPath } = rotateKeyFile(path, at, { keepOld: true });
  if (oldPath !== null)
    cli.err.line(`the old key is ${showPath(oldPath)} now: keep it or destroy it`);
  cli.err.line(
    "whoever trusts the old key goes on trusting what it signs: from now on have only this one trusted",
  );
  return keyFile;
}

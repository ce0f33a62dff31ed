/**
 * The secrets that a command can find in its environment, address and settings. None of them is
 * ever printed.
 */
import { isSecretName } from "../../core/base/redact.ts";

/** A shorter value of a variable is probably a switch or a number, not a secret. */
const VALUE_CHARS_MIN = 8;
/** The place of a secret, not the secret itself. */
const PATH = /^(?:~|\.{0,2}\/|[a-z]:\\)\S*$/iu;

/** Values of variables with secret names, such as PGPASSWORD and API_TOKEN. */
export function listEnvironmentSecrets(env: NodeJS.ProcessEnv): string[] {
  return Object.entries(env).flatMap(([name, value]) => {
    if (value === undefined || value.length < VALUE_CHARS_MIN) return [];
    return isSecretName(name) && !PATH.test(value) ? [value] : [];
  });
}

/** The password of an address, both URL-encoded and decoded. */
export function listAddressSecrets(address: string): string[] {
  const password = URL.parse(address)?.password ?? "";
  if (password === "") return [];
  return [password, decode(password)];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The secrets that a command knows of, from where it is told them: none of them is ever printed. */
import { isSecretName } from "../../core/base/redact.ts";

/** A shorter value in a variable is a switch or a number rather than a secret. */
const VALUE_CHARS_MIN = 8;
/** Where a secret lies, and not the secret itself. */
const PATH = /^(?:~|\.{0,2}\/|[a-z]:\\)\S*$/iu;

/** Values of variables whose names say that they are secrets: PGPASSWORD, API_TOKEN. */
export function listEnvironmentSecrets(env: NodeJS.ProcessEnv): string[] {
  return Object.entries(env).flatMap(([name, value]) => {
    if (value === undefined || value.length < VALUE_CHARS_MIN) return [];
    return isSecretName(name) && !PATH.test(value) ? [value] : [];
  });
}

/** The password of an address, as it is written there and as it is meant. */
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

/**
 * Resolves a host and checks the result, at the moment of the connection: the checked address is
 * the one that is connected to, so a name server cannot give one answer to the check and another to
 * the socket.
 */
import dns, { type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { PermanentError } from "../core/base/errors.ts";
import { isPublicAddress } from "./public-address.ts";

export function makeVettedLookup(allowPrivate: boolean): LookupFunction {
  return (hostname, options, callback) => {
    dns.lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const failure = error ?? (allowPrivate ? null : refuseClosed(hostname, addresses));
      const [first] = failure === null ? addresses : [];
      if (failure !== null) callback(failure, "");
      else if (options.all === true) callback(null, addresses);
      else callback(null, first?.address ?? "", first?.family);
    });
  };
}

/**
 * One closed address among public ones is refused too: the caller cannot choose which one is used.
 */
function refuseClosed(
  hostname: string,
  addresses: readonly LookupAddress[],
): PermanentError | null {
  const closed = addresses.find(({ address }) => !isPublicAddress(address));
  if (closed === undefined) return null;
  return new PermanentError(
    `${hostname} resolves to ${closed.address}, which is not a public address; allowPrivate: true would allow it`,
    { code: "ADDRESS_REFUSED" },
  );
}

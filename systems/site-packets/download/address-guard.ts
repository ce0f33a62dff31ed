/**
 * Which addresses may be connected to. A portal's link, a redirect or a name server must not be
 * able to use the pipeline against its own network: the host itself, its neighbours, the cloud's
 * metadata. Every address that is not a unicast address of the public internet is refused, unless
 * an explicitly allowed range contains it.
 */
import dns, { type LookupAddress } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { isPublicAddress, SluiceError } from "sluice";
import type { Refusal } from "./refusal.ts";

export interface AddressGuard {
  /** Null when the address may be connected to. */
  check(address: string): Refusal | null;
  /**
   * For sockets, in place of `dns.lookup`. It returns the addresses that were checked, and the
   * socket connects to them: a name server cannot give one answer to the check and another to the
   * socket.
   */
  readonly lookup: LookupFunction;
}

/** All addresses of a name, of both families, as `dns.lookup` returns them. */
export type ResolveName = (
  hostname: string,
  options: { readonly all: true; readonly hints: number },
  callback: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void;

/** The lookup's error; the caller adds the link. */
export class RefusedAddressError extends Error {
  override readonly name = "RefusedAddressError";
  readonly code = "FORBIDDEN_ADDRESS";
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.why);
    this.refusal = refusal;
  }
}

/** `allowPrivate`: ranges such as "10.20.0.0/16" whose addresses are allowed nevertheless. */
export function makeAddressGuard(
  allowPrivate: readonly string[],
  resolve: ResolveName = dns.lookup,
): AddressGuard {
  const allowed: Ranges = { 4: new BlockList(), 6: new BlockList() };
  for (const range of allowPrivate) addRange(allowed, range);
  const check = (address: string): Refusal | null => checkAddress(address, allowed);
  return { check, lookup: makeLookup(check, resolve) };
}

/** Separate by the version of the range: otherwise the list finds 10.0.0.1 in ::/0. */
type Ranges = Readonly<Record<4 | 6, BlockList>>;

function checkAddress(text: string, allowed: Ranges): Refusal | null {
  const version = isIP(text);
  if (version === 0) return refuseAddress(text, "not an address");
  // A zone names one of this host's own links.
  if (text.includes("%")) return refuseAddress(text, "an address with a zone");
  const isAllowed =
    version === 4
      ? allowed[4].check(text)
      : // ::ffff:10.0.0.1 connects to 10.0.0.1: if that one is allowed, so is this.
        allowed[6].check(text, "ipv6") || allowed[4].check(text, "ipv6");
  if (isAllowed || isPublicAddress(text)) return null;
  return refuseAddress(text, "not a public address");
}

function refuseAddress(address: string, what: string): Refusal {
  return {
    code: "FORBIDDEN_ADDRESS",
    why: `${address} is ${what}`,
    remedy: "if it belongs to the site, add its range to allowPrivate",
  };
}

const RANGE = /^([^/%]+)\/(\d{1,3})$/u;

function addRange(ranges: Ranges, text: string): void {
  const [, network = "", prefix] = RANGE.exec(text) ?? [];
  const version = isIP(network);
  const bits = Number(prefix);
  if (version === 4 && bits <= 32) return ranges[4].addSubnet(network, bits);
  if (version === 6 && bits <= 128) return ranges[6].addSubnet(network, bits, "ipv6");
  throw new SluiceError(
    "BAD_ADDRESS_RANGE",
    `allowPrivate: ${JSON.stringify(text)} is not a range`,
    {
      hint: 'Write it as an address and a prefix, for example "10.20.0.0/16" or "fd00::/8".',
    },
  );
}

const FAMILIES: Readonly<Record<string, number>> = { IPv4: 4, IPv6: 6 };

/** Both families are looked up, whichever is requested, and all addresses are checked. */
function makeLookup(check: AddressGuard["check"], resolve: ResolveName): LookupFunction {
  return (hostname, { all, family = 0, hints = 0 }, callback) => {
    const wanted = FAMILIES[family] ?? Number(family);
    resolve(hostname, { all: true, hints }, (error, addresses) => {
      const failure = error ?? refuseName(hostname, addresses, check);
      if (failure !== null) return callback(failure, "");
      const vetted = addresses
        .map(({ address }) => ({ address, family: isIP(address) }))
        .filter((one) => wanted === 0 || one.family === wanted);
      const [first] = vetted;
      if (first === undefined) callback(makeNotFound(hostname), "");
      else if (all === true) callback(null, vetted);
      else callback(null, first.address, first.family);
    });
  };
}

/** One refused address among public ones is enough, because the caller cannot choose among them. */
function refuseName(
  hostname: string,
  addresses: readonly LookupAddress[],
  check: AddressGuard["check"],
): RefusedAddressError | null {
  for (const { address } of addresses) {
    const refusal = check(address);
    if (refusal === null) continue;
    const why = `${hostname} resolves to a refused address: ${refusal.why}`;
    return new RefusedAddressError({ ...refusal, why });
  }
  return null;
}

/** In the form of a `dns.lookup` error, so that it is classified in the same way. */
function makeNotFound(hostname: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`no address of ${hostname}`), { code: "ENOTFOUND", hostname });
}

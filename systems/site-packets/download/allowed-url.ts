/**
 * Which links may be fetched for a site: of the web, without credentials, and at the site's own
 * origin or one of the hosts that were named for it. Decides on the text alone; what a name resolves
 * to is vetted when the socket looks it up (address-guard.ts).
 */
import type { AddressGuard } from "./address-guard.ts";
import type { Refusal } from "./refusal.ts";

/** Where a site's documents may come from. */
export interface SiteOrigins {
  /** For example "https://portal.example.org". Relative links are resolved against it. */
  readonly origin: string;
  /** Further hosts, as "files.example.org" (the scheme's own port) or "files.example.org:8443". */
  readonly hosts: readonly string[];
}

/** Longer links than this, servers refuse as well. */
const URL_CHARS_MAX = 4_096;
const SHOWN_CHARS_MAX = 300;

/**
 * `base` is what a relative link is resolved against, and whose scheme must not be weakened: the
 * URL that redirected here, or else the site's origin. The URL that is answered has no fragment.
 */
export function decideUrl(
  text: string,
  site: SiteOrigins,
  guard: Pick<AddressGuard, "check">,
  base: URL = new URL(site.origin),
): URL | Refusal {
  if (text.length > URL_CHARS_MAX) return refuseLong();
  if (!URL.canParse(text, base.href)) {
    return refuseUrl("the link is not a URL", "the site has to fix it");
  }
  // Parsing writes hosts as they are compared: in small letters, in punycode, and 0x7f.1 as 127.0.0.1.
  const url = new URL(text, base);
  if (url.href.length > URL_CHARS_MAX) return refuseLong();
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return refuseUrl(
      `the link's scheme is ${url.protocol.slice(0, SHOWN_CHARS_MAX)}`,
      "only http: and https: are fetched",
    );
  }
  if (url.username !== "" || url.password !== "") {
    return refuseUrl(
      `the link to ${url.host} contains a user or a password`,
      "the site has to offer it without them",
    );
  }
  if (base.protocol === "https:" && url.protocol === "http:") {
    return refuseUrl(
      `the link to ${url.host} leads from https: to http:`,
      "the site has to offer it over https:",
    );
  }
  if (!isAllowedHost(url, site)) {
    return refuseUrl(
      `${url.protocol}//${url.host} is neither the site's origin nor one of its hosts`,
      `if it belongs to the site, add ${JSON.stringify(url.host)} to the site's hosts`,
    );
  }
  url.hostname = dropRootDot(url.hostname);
  url.hash = "";
  // Sockets do not look up what is an address already.
  const literal = readLiteral(url);
  return (literal === null ? null : guard.check(literal)) ?? url;
}

/** As it may be shown: a query may hold a token, and a message is kept and sent around. */
export function describeUrl(url: URL): string {
  const shown = `${url.origin}${url.pathname}`;
  return shown.length <= SHOWN_CHARS_MAX ? shown : `${shown.slice(0, SHOWN_CHARS_MAX - 1)}…`;
}

function isAllowedHost(url: URL, { origin, hosts }: SiteOrigins): boolean {
  const home = new URL(origin);
  if (nameHost(home) === nameHost(url)) return true;
  return hosts.some((host) => {
    // With the link's own scheme, so that a host without a port stands for the port of that.
    const text = `${url.protocol}//${host}`;
    return URL.canParse(text) && nameHost(new URL(text)) === nameHost(url);
  });
}

/** With its port, as http://a and https://a are two servers. */
function nameHost({ protocol, hostname, port }: URL): string {
  const own = protocol === "https:" ? "443" : "80";
  return `${dropRootDot(hostname)}:${port === "" ? own : port}`;
}

/** "example.org." is the same host, but certificates do not know it by that name. */
function dropRootDot(hostname: string): string {
  return hostname.endsWith(".") ? hostname.slice(0, -1) : hostname;
}

/** The address that a host is, without the brackets of IPv6; null for a name. */
function readLiteral({ hostname }: URL): string | null {
  if (hostname.startsWith("[")) return hostname.slice(1, -1);
  // After parsing, a host whose last label is a number is always an IPv4 address.
  return /^[0-9.]+$/u.test(hostname) ? hostname : null;
}

function refuseLong(): Refusal {
  return refuseUrl(
    `the link is longer than ${URL_CHARS_MAX} characters`,
    "the site has to offer a shorter one",
  );
}

function refuseUrl(why: string, remedy: string): Refusal {
  return { code: "FORBIDDEN_URL", why, remedy };
}

/**
 * Which links may be fetched for a site: http or https, without credentials, and at the site's own
 * origin or one of its named hosts. Decides on the text alone; the addresses of a name are checked
 * when the socket looks it up (address-guard.ts).
 */
import type { AddressGuard } from "./address-guard.ts";
import type { Refusal } from "./refusal.ts";

/** The origins of a site's documents. */
export interface SiteOrigins {
  /** For example "https://portal.example.org". Relative links are resolved against it. */
  readonly origin: string;
  /** Further hosts, as "files.example.org" (the scheme's own port) or "files.example.org:8443". */
  readonly hosts: readonly string[];
}

/** Servers refuse longer links as well. */
const URL_CHARS_MAX = 4_096;
const SHOWN_CHARS_MAX = 300;

/**
 * `base` is the URL for relative links, whose scheme must not be weakened: the URL that redirected
 * here, or else the site's origin. The returned URL has no fragment.
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
  // Parsing normalises hosts for comparison: lower case, punycode, and 0x7f.1 as 127.0.0.1.
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
  // Sockets do not look up a host that is already an address.
  const literal = readLiteral(url);
  return (literal === null ? null : guard.check(literal)) ?? url;
}

/** The URL for messages: a query may contain a token, and messages are stored and forwarded. */
export function describeUrl(url: URL): string {
  const shown = `${url.origin}${url.pathname}`;
  return shown.length <= SHOWN_CHARS_MAX ? shown : `${shown.slice(0, SHOWN_CHARS_MAX - 1)}…`;
}

function isAllowedHost(url: URL, { origin, hosts }: SiteOrigins): boolean {
  const home = new URL(origin);
  if (nameHost(home) === nameHost(url)) return true;
  return hosts.some((host) => {
    // With the link's own scheme, so that a host without a port means the default port of that
    // scheme.
    const text = `${url.protocol}//${host}`;
    return URL.canParse(text) && nameHost(new URL(text)) === nameHost(url);
  });
}

/** With its port, because http://a and https://a are two servers. */
function nameHost({ protocol, hostname, port }: URL): string {
  const own = protocol === "https:" ? "443" : "80";
  return `${dropRootDot(hostname)}:${port === "" ? own : port}`;
}

/** "example.org." is the same host, but certificates do not contain it in that form. */
function dropRootDot(hostname: string): string {
  return hostname.endsWith(".") ? hostname.slice(0, -1) : hostname;
}

/** The address in a host, without the brackets of IPv6; null for a name. */
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

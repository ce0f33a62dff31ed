/**
 * What an error means. Decided by the codes and names that Node, undici and fetch, PostgreSQL,
 * Redis and AWS give their errors, and by HTTP status. Never by the text of a message, except the
 * first word of a Redis reply, which is its code.
 */

/**
 * `passing`: the same call may succeed later. `throttled`: the same, and the server asks for fewer
 * calls. `refused`: the caller has no right to do it. `gone`: the thing asked for does not exist.
 * `bad`: what was sent is wrong.
 */
export type ErrorMeaning = "passing" | "throttled" | "refused" | "gone" | "bad";

/** What one error of a chain of causes says about itself. */
export interface ErrorSigns {
  readonly code: string | null;
  readonly name: string | null;
  readonly status: number | null;
  /** The first word of a Redis error reply. */
  readonly reply: string | null;
}

export interface FoundMeaning {
  readonly meaning: ErrorMeaning;
  /** The word that gave the meaning; null where the status gave it. */
  readonly word: string | null;
}

export function findMeaning({ code, name, status, reply }: ErrorSigns): FoundMeaning | null {
  const replied = reply === null ? undefined : REPLIES.get(reply);
  if (replied !== undefined) return { meaning: replied, word: reply };
  for (const word of [code, name]) {
    const meaning = word === null ? null : readWord(word);
    if (meaning !== null) return { meaning, word };
  }
  const meaning = status === null ? null : readStatus(status);
  return meaning === null ? null : { meaning, word: null };
}

function readWord(word: string): ErrorMeaning | null {
  return WORDS.get(word) ?? readSqlState(word) ?? readAwsName(word);
}

function readStatus(status: number): ErrorMeaning | null {
  if (status === 429) return "throttled";
  if (status === 408 || status === 425 || status >= 500) return "passing";
  if (status === 401 || status === 403 || status === 407) return "refused";
  if (status === 404 || status === 410) return "gone";
  return status >= 400 ? "bad" : null;
}

type Vocabulary = Readonly<Partial<Record<ErrorMeaning, string>>>;

/** The words of each meaning, separated by spaces. */
function readVocabulary(vocabulary: Vocabulary): ReadonlyMap<string, ErrorMeaning> {
  return new Map(
    Object.entries(vocabulary).flatMap(([meaning, words]) =>
      words
        .trim()
        .split(/\s+/u)
        .map((word): [string, ErrorMeaning] => [word, meaning as ErrorMeaning]),
    ),
  );
}

/** Codes and names of Node, undici, and the clients of Redis. */
const WORDS = readVocabulary({
  passing: `
    EAGAIN EAI_AGAIN EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EHOSTDOWN EHOSTUNREACH EMFILE
    ENETDOWN ENETRESET ENETUNREACH ENFILE ENOBUFS ENOMEM ENOSPC ENOTCONN ENOTFOUND EPIPE
    ESOCKETTIMEDOUT ETIMEDOUT ETIMEOUT ERR_HTTP2_GOAWAY_SESSION ERR_HTTP2_STREAM_CANCEL
    ERR_SOCKET_CONNECTION_TIMEOUT ERR_STREAM_PREMATURE_CLOSE TimeoutError
    UND_ERR_BODY_TIMEOUT UND_ERR_CLOSED UND_ERR_CONNECT_TIMEOUT UND_ERR_DESTROYED
    UND_ERR_HEADERS_TIMEOUT UND_ERR_REQ_RETRY UND_ERR_SOCKET
    ClientClosedError ClientOfflineError ClusterAllFailedError ConnectionTimeoutError
    MaxRetriesPerRequestError SocketClosedUnexpectedlyError`,
  // The last line is about servers that could not prove their identity.
  refused: `
    EACCES EPERM EROFS
    CERT_HAS_EXPIRED DEPTH_ZERO_SELF_SIGNED_CERT ERR_TLS_CERT_ALTNAME_INVALID
    SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_GET_ISSUER_CERT_LOCALLY UNABLE_TO_VERIFY_LEAF_SIGNATURE`,
  bad: "ERR_INVALID_URL UND_ERR_INVALID_ARG UND_ERR_NOT_SUPPORTED",
});

/** First words of replies of Redis. */
const REPLIES = readVocabulary({
  passing: `
    ASK BUSY CLUSTERDOWN LOADING MASTERDOWN MISCONF MOVED NOREPLICAS NOTREADY OOM READONLY TRYAGAIN
    UNBLOCKED`,
  refused: "DENIED NOAUTH NOPERM WRONGPASS",
  bad: "CROSSSLOT WRONGTYPE",
});

const SQLSTATE = /^[0-9][0-9A-Z]{4}$/u;
/** A full state of five characters, or the two of a class; the full state wins. */
const SQL_MEANINGS = readVocabulary({
  // Connections, a server that is not the primary, conflicts, no room, shutdown, disk errors.
  passing: "08 25006 25P03 40 53 55006 55P03 57 58",
  refused: "28 42501",
  // The database, the schema, a table or a column does not exist.
  gone: "3D 3F 42P01 42703",
  // Protocol violations; data, integrity, syntax and names.
  bad: "08P01 22 23 42",
});

function readSqlState(word: string): ErrorMeaning | null {
  if (!SQLSTATE.test(word)) return null;
  return SQL_MEANINGS.get(word) ?? SQL_MEANINGS.get(word.slice(0, 2)) ?? null;
}

/** Names as `simplifyAwsName` returns them: AWS services spell the same error in several ways. */
const AWS_MEANINGS = readVocabulary({
  passing: `
    idpcommunicationerror internalerror internalfailure internalserver internalservererror
    internalservice kmsinternal networkingerror priorrequestnotcomplete queuedeletedrecently
    requestexpired requestinthefuture requesttimeout requesttimetooskewed serviceunavailable
    transactioninprogress`,
  throttled: `
    bandwidthlimitexceeded ec2throttled kmsthrottled kmsthrottling limitexceeded overlimit
    provisionedthroughputexceeded requestlimitexceeded requestthrottled slowdown throttled throttling
    toomanyrequests`,
  refused: `
    accessdenied authfailure authorizationerror credentialsprovidererror expiredtoken
    idprejectedclaim incompletesignature invalidaccesskeyid invalidclienttokenid
    invalididentitytoken invalidsecurity invalidsignature invalidtoken missingauthenticationtoken
    notauthorized optinrequired signaturedoesnotmatch tokenprovidererror tokenrefreshrequired
    unauthorizedoperation unrecognizedclient`,
  gone: "nonexistentqueue nosuchbucket notfound queuedoesnotexist resourcenotfound",
  bad: `
    invalidmessagecontents invalidparametervalue nosuchkey receipthandleisinvalid validation`,
});

function readAwsName(word: string): ErrorMeaning | null {
  const name = simplifyAwsName(word);
  const known = AWS_MEANINGS.get(name);
  if (known !== undefined) return known;
  // A key that is disabled, scheduled for deletion or owned by another account.
  return /^kms[a-z]/u.test(name) ? "refused" : null;
}

/** `KMS.DisabledException`, `AWS.SimpleQueueService.NonExistentQueue`, `com.amazonaws.sqs#QueueDoesNotExist`. */
function simplifyAwsName(word: string): string {
  return word
    .replace(/^.*#/u, "")
    .replace(/^AWS\.SimpleQueueService\./u, "")
    .replaceAll(".", "")
    .toLowerCase()
    .replace(/exception$/u, "");
}

/** What stands in the place of a secret. */
export const secretMark = '[redacted]';

// The one list of names: of members, of variables, headers, options and parameters in text. Words are in lower case, joined by `_`.

/** All patterns. A function without arguments, so that a bundle that removes no secrets drops them. */
function compiled() {
  /** A name that ends so names a secret, whatever stands before it: `dbpassword`, `PGPASSWORD`. */
  const anywhere = [
    'passw(?:or)?ds?|passwort|passphrases?|passcodes?|apikeys?|api_keys?|clientsecrets?|authtoken|accesstoken',
    'connection_?strings?|phpsessid|jsessionid',
  ].join('|');
  /** The same, only as a word of its own. */
  const words = [
    '(?:private|access|secret|client|signing|encryption|master|account|shared|storage|service|auth|webhook|deploy|license|ssh)_?keys?',
    '(?:subscription|app|session|cookie|jwt|hmac|aes|openai|anthropic|gemini|mistral|groq|azure|stripe|sendgrid)_?keys?',
    'authorizations?|pwds?|secrets?|cookies?|auths|credentials?|creds|jwts?|dsns?|bearers?|code_verifiers?|amz_signatures?|(?<=_)pass|(?<=_)sig|(?<=^_)auth',
    '(?<!(?:^|[^a-z])per_?)token',
    '(?:access|refresh|auth|api|bearer|session|id|csrf)_?tokens',
    '(?:mfa|otp|totp|verification|security|two_?factor)_?codes?',
  ].join('|');
  /** What may follow: `PASSWORD_2`, `SECRET_KEY_BASE`, `private_key_pem`. */
  const after = `(?:_?\\d+|_(?:${[
    'value|base|old|new|current|previous|prev|next|default|primary|secondary|main|backup|live|local|prod|production',
    'dev|development|test|stage|staging|hash|digest|confirm|confirmation|again|repeat|pem|b64|base64|hex|json',
  ].join('|')}))*`;
  const secretName = new RegExp(`(?:${anywhere}|(?:^|[^a-z])(?:${words}))${after}$`);

  /** Prefixes of the keys of vendors. */
  const keyPrefixes = String.raw`
    sk- pk- rk- sk_live_ sk_test_ rk_live_ rk_test_ whsec_ gh[pousr]_ github_pat_ glpat- xox[abeoprs]- xapp- AKIA ASIA AIza
    ya29\. SG\. npm_ pypi- hf_ gsk_ xai- pplx- tvly- do[oprt]_v1_ lin_(?:api|oauth)_ r8_ AGE-SECRET-KEY- nvapi- csk- tgp_v1_
    rzp_(?:live|test)_ shp(?:at|ca|pa|ss|ua)_ gl[a-z]{2,6}- dckr_(?:pat|oat)_ hv[bsr]\. PMAK- dapi AT[AC]TT3x fig[dou]_ ntn_
    ph[cx]_ GOCSPX- lsv2_[a-z]{2}_ sq0[a-z]{3}- sntry[su]_ tskey- sgp_ glsa_ glc_ NRAK- sbp_ sb_secret_ pscale_[a-z]{2,6}_ EAAC
    1//0 ABSK pul- dp\.[a-z]{2}\.
  `;

  /** What a secret looks like, whatever its name; `$1` is kept. The time of each is linear in the length of the text. */
  const looks: readonly RegExp[] = [
    /(-{4,5} ?BEGIN [A-Z\d ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5})(?:[^-]|-(?!--{2,3} ?END))+/g,
    /(\bPrivate-Lines: \d{1,3}\r?\n)[A-Za-z\d+/=\s]+/g,
    /\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}/gi,
    new RegExp(`(\\b(?:${keyPrefixes.trim().split(/\s+/).join('|')}))[\\w-]{8,}(?:\\.[\\w-]+)*`, 'g'),
    // Tried once for each run of such characters, with the first `eyJ` in it: else its time would grow with the square of the text.
    /(?<![\w-])(?=([\w-]*?\beyJ))\1[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?/g,
    // The password of an address. One with `/`, `?`, `#` or `@` in it ends at the last `@`; digits before a `/` are a port.
    /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@:"'<>]{0,256}:(?!\d{1,5}[/?#])[^\s"'<>]{1,256}(?=@)/gi,
    /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@:]{0,256}:[^\s/@]+(?=@)/gi,
    /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[\w~.%+-]{20,}(?=@)/gi,
    /((?<![\w.-])[\w.-]{1,256}:)[^\s@:/]{1,256}(?=@(?:tcp|unix)\()/g,
    /((?<!\S)(?:-u|--user|--proxy-user)[\s=]\s*["']?[^\s:"']{1,256}:)[^\s"']+/g,
    /(\blogin\s+\S{1,256}\s+password\s+)\S+/gi,
    /(\b(?:password\s|identified\s+by\s|password\s+for\s+\S{1,100}\s*=)\s*["'])[^"'\n]+/gi,
    /(<[\w.:-]{0,100}(?:passw(?:or)?d|passphrase|secret|api[-_]?key|token)(?:\s[^<>]{0,200})?>(?:<!\[CDATA\[)?)[^<\]]+/gi,
    /("auth"\s*:\s*")[A-Za-z\d+/]{12,}={0,2}(?=")/g,
    // Signed addresses, and addresses that are a secret.
    /([?&](?:sig|signature|oauth_signature|x-[a-z]{2,5}-signature|pass)=)[^&\s"'<>#]+/gi,
    /([?&](?:key|code|auth|sid|session(?:_?id)?|ticket)=)[^&\s"'<>#]{16,}/gi,
    /(\bhooks\.slack\.com\/(?:services|workflows|triggers)\/)[^\s"'<>]+/gi,
    /(\bdiscord(?:app)?\.com\/api\/webhooks\/\d{1,30}\/)[\w-]+/gi,
    /(\bbot\d{6,12}:)[\w-]{16,}/g,
    // Options and lines of commands and files whose name says nothing.
    /(\bcurl\b[^\n|;&]{0,200}?\s-u["']?[^\s:"']{1,256}:)[^\s"']+/g,
    /(\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;&]{0,200}?\s-p["']?)[^\s"']+/g,
    /(\b(?:redis-cli\b[^\n|;&]{0,200}?\s-a|sshpass\s+-p|(?:docker|podman|registry)\s+login\b[^\n|;&]{0,200}?\s-p)\s*["']?)[^\s"']+/g,
    /((?:^|\n)[^\S\n]*(?:requirepass|masterauth|AUTH)[^\S\n]+(?:\S{1,100}[^\S\n]+)?)\S{6,}(?=[^\S\n]*(?:\n|$))/g,
    /((?:^|\n)[\w.*-]{1,100}:(?:\d{1,5}|\*):[\w*-]{1,100}:[\w*-]{1,100}:)[^\s:]+(?=\n|$)/g,
    /(\bjdbc:oracle:thin:[^\s/@]{1,100}\/)[^\s@]+(?=@)/gi,
    /(\bSecret access key\s*\n[^\n,]{1,200},)\S+/gi,
  ];

  /** What may stand beside a separator: a colour of a terminal, a mark of Markdown, the end of an element. */
  const dressing = String.raw`(?:\s|\*{1,3}|\u001b\[[\d;]{0,20}m|<\/?\w{1,10}>)*`;
  /** A quote as it is, escaped for a string in a string, for HTML, for an address or for a script. */
  const quotes = String.raw`\\*["'${'`'}]|&quot;|&#0?3[49];|&#x2[27];|&apos;|%2[27]|\\+u002[27]`;
  const separator = String.raw`-{1,2}>|→|=>|:=|[:=＝：]|%3[ad]|&#6[1];|\\+u003[ad]`;

  /** `name=`, `"name":`, `--name value`, `name =>`, also with the quotes escaped. Each run of letters is read once. */
  const assignment = new RegExp(
    String.raw`(?<![\w.-])(?:(?<=\\)[nrt])?(?<option>--?)?(?=(?<name>[\w.-]+))\k<name>` +
      String.raw`(?<between>(?<quote>${quotes})?\]?${dressing}(?:${separator})${dressing}|(?<=--[\w-]+)[^\S\n]+)`,
    'gi',
  );

  /** Where a name and its value are values themselves: `name: DB_PASSWORD` and `value: …`, `key="password" value="…"`, `"Authorization","…"`, `ENV API_KEY …`. */
  const named: readonly RegExp[] = [
    new RegExp(
      String.raw`\b(?:name|key|variable|header)(?:${quotes})?\s*[:=]\s*(?:${quotes})?(?=(?<name>[\w.-]{1,256}))\k<name>` +
        String.raw`(?:(?!\b(?:name|key)\b)[^<>{}[\]]){0,200}?\bvalue(?<between>(?:${quotes})?\s*[:=]\s*)`,
      'gi',
    ),
    /(["'])(?=(?<name>[\w-]{1,64}))\k<name>\1(?<between>\s*,\s*)(?=["'])/g,
    /(?<![\w.-])(?:ENV|ARG|setx|setenv)[^\S\n]+(?<name>[\w.-]{1,256})(?<between>[^\S\n]+)/g,
    /(?:^|\n)[^\S\n]*\|[^\S\n]*[*`]{0,3}(?<name>[\w.-]{1,64}(?: [\w.-]{1,64})?)[*`]{0,3}[^\S\n]*(?<between>\|[^\S\n]*)/g,
    /\b(?<name>[\w.-]{1,64}(?: (?:key|secret|token|password))?)(?<between> (?:is|was|are):?\s+[*"'`]{0,3})/gi,
  ];

  const opening = new RegExp(`${quotes}|[“‘]`, 'iy');
  return { secretName, looks, assignment, named, opening };
}

const patterns = /* @__PURE__ */ compiled();
const longestName = 256;

/** Names that are words of prose as well: only a string with a digit or a sign is a secret there, `pass: 's3cret'`. */
const secretStringName = /^(?:pass|otp|totp|cvv|cvc)$/;
const notProse = /[^\sa-z,.;:'"()]/i;

/** Headers whose value is the rest of the line. */
const headerName = /(^|_)(authorization|cookie)$/;

function wordsOf(name: string): string {
  const snake = name.slice(-longestName).replace(/([a-z0-9])([A-Z])/g, '$1_$2');
  return snake.replace(/[-.]/g, '_').toLowerCase();
}

/** Whether what has this name holds secrets: `apiKeys`, `x-api-key`, `DB_PASSWORD`, …; not `maxTokens`, a count. */
export function isSecretName(name: string): boolean {
  return patterns.secretName.test(wordsOf(name));
}

/** Whether a string of this name is a secret. */
export function isSecretString(name: string, value: string): boolean {
  return isSecretName(name) || (secretStringName.test(wordsOf(name)) && notProse.test(value));
}

/** The text without what looks like a secret, and without the values of names that hold secrets. */
export function withoutForms(text: string): string {
  return withoutAssigned(patterns.looks.reduce((left, form) => left.replace(form, `$1${secretMark}`), text));
}

/** `DB_PASSWORD=…`, `"client_secret": "…"`, `Cookie: …`, `--password …` without the values. */
function withoutAssigned(text: string): string {
  const { named, assignment } = patterns;
  return named.reduce((left, form) => withoutValues(left, form, namedValue), withoutValues(text, assignment, assigned));
}

/** Where a name that was found ends, and where its secret is. */
type RangeIn = (text: string, found: RegExpExecArray) => Range | undefined;

function withoutValues(text: string, form: RegExp, rangeIn: RangeIn): string {
  const parts: string[] = [];
  let kept = 0;
  form.lastIndex = 0;
  for (let found = form.exec(text); found; found = form.exec(text)) {
    const value = rangeIn(text, found);
    if (!value) continue;
    parts.push(text.slice(kept, value.start), secretMark);
    kept = value.end;
    form.lastIndex = value.end;
  }
  return parts.length === 0 ? text : parts.join('') + text.slice(kept);
}

function assigned(text: string, { index, groups = {}, 0: { length } }: RegExpExecArray): Range | undefined {
  const { name = '', between = '', quote, option } = groups;
  const start = index + length;
  const isNamed = isSecretName(name) || (quote === undefined && isSecretName(withWordBefore(text, index, name)));
  const mayBe = () => option === '--' || between.trim() === '=' || opensAt(text, start) !== undefined;
  if (!isNamed && !(secretStringName.test(wordsOf(name)) && mayBe())) return undefined;
  const typed = headerName.test(wordsOf(name)) ? 0 : typeAt(text, start, between);
  const value = valueAt(text, start + typed, {
    name,
    between,
    isJson: quote !== undefined,
    isVariable:
      /^[A-Z][A-Z\d_]*$/.test(name) && /(^|\n)[^\S\n]*(export |set |-e )?[^\S\n]*$/.test(beforeOf(text, index)),
  });
  return value && (isNamed || notProse.test(text.slice(value.start, value.end))) ? value : undefined;
}

/** `API key`: the name and the word before it. */
function withWordBefore(text: string, index: number, name: string): string {
  const before = /([A-Za-z]{2,15})[ -]$/.exec(beforeOf(text, index))?.[1];
  return before === undefined ? '' : `${before}_${name}`;
}

/** The length of a type in front of the value: `apiKey: string = "…"`. */
function typeAt(text: string, start: number, between: string): number {
  if (!between.includes(':')) return 0;
  return matchAt(/[A-Za-z_][\w.<>|?[\], ]{0,60}=\s*(?=["'`])/y, text, start)?.length ?? 0;
}

function namedValue(text: string, { index, groups = {}, 0: { length } }: RegExpExecArray): Range | undefined {
  const { name = '', between = '' } = groups;
  if (!isSecretName(name.replaceAll(' ', '_'))) return undefined;
  const start = index + length;
  if (/^ (?:is|was|are)/i.test(between)) {
    const value = rangeOf(/[^\s"'`“”‘’,;*]{6,}/y, text, start);
    return value && /\d/.test(text.slice(value.start, value.end)) ? value : undefined;
  }
  if (between.includes(',')) {
    if (!headerName.test(wordsOf(name)) && !/^x-/i.test(name)) return undefined;
    return valueAt(text, start, { name, between: '=', isJson: true, isVariable: false });
  }
  const value = valueAt(text, start, { name, between: '=', isJson: false, isVariable: false });
  if (!between.includes('|') || !value) return value;
  return /\d/.test(text.slice(value.start, value.end)) ? value : undefined;
}

function beforeOf(text: string, index: number): string {
  return text.slice(Math.max(0, index - 16), index);
}

interface Assigned {
  readonly name: string;
  readonly between: string;
  /** The name is in quotes. */
  readonly isJson: boolean;
  /** A line of a file of environment variables. */
  readonly isVariable: boolean;
}

interface Range {
  readonly start: number;
  readonly end: number;
}

function opensAt(text: string, start: number): string | undefined {
  return matchAt(patterns.opening, text, start);
}

function valueAt(text: string, start: number, { name, between, isJson, isVariable }: Assigned): Range | undefined {
  if (between.includes(':') && !isJson && headerName.test(wordsOf(name)) && !/["'`“‘\\]/.test(text.charAt(start)))
    return headerAt(text, start);
  const quote = opensAt(text, start);
  if (quote !== undefined) return quotedAt(text, start + quote.length, quote);
  if (isJson && /[[{]/.test(text.charAt(start))) return rangeOf(/[^\]}]+/y, text, start + 1);
  const block = matchAt(/[|>][-+\d]{0,3}[^\S\n]*\n/y, text, start);
  if (block !== undefined) return blockAt(text, start + block.length);
  const value = rangeOf(unquotedIn(between, isVariable), text, start);
  if (!value || text.startsWith(secretMark, value.start)) return undefined;
  // Prose such as "the password: must be long" stays.
  const word = text.slice(value.start, value.end);
  const isSure = between === '=' || isJson || word.length >= 8 || (word.length >= 4 && /\d/.test(word));
  return isSure ? value : undefined;
}

/** A value without quotes: `,`, `;` and `&` belong to it, unless the next member or a space follows. */
function unquotedIn(between: string, isVariable: boolean): RegExp {
  if (/%3[ad]/i.test(between)) return /[^\s"'&%]+(?:%(?!26|22|2c|7d|0a)[\da-f]{2}[^\s"'&%]*)*/iy;
  if (isVariable) return /(?:\\.|\S)+/y;
  return /(?:[^\s"'“”‘’,;&}]|[,;&](?![\w.%-]*[=:]|[\s"'`{[]|$))+/y;
}

/** The lines of a block of YAML: those that are indented as its first one is. */
function blockAt(text: string, start: number): Range | undefined {
  const indent = matchAt(/[^\S\n]+/y, text, start);
  if (indent === undefined) return undefined;
  let end = start;
  while (text.startsWith(indent, end)) {
    const line = text.indexOf('\n', end);
    if (line === -1) return { start: start + indent.length, end: text.length };
    end = line + 1;
  }
  return { start: start + indent.length, end: end - 1 };
}

/** Up to the quote that ends it, or to the end of a string that was cut. A shell joins what follows at once: `'it'\''s'`. */
function quotedAt(text: string, start: number, opened: string): Range | undefined {
  const quote = { '“': '”', '‘': '’' }[opened] ?? opened;
  const isEscaped = opened.length > 1;
  let end = text.indexOf(quote, start);
  while (end > 0 && (isEscaped ? false : isEscapedAt(text, end) || isJoinedAt(text, end)))
    end = text.indexOf(quote, end + (isJoinedAt(text, end) ? joint : 1));
  if (end === -1) end = text.length;
  return end > start ? { start, end } : undefined;
}

/** The length of `'\''`, and less than that of `'"'"'`. */
const joint = 4;

function isJoinedAt(text: string, index: number): boolean {
  return text.startsWith("'\\''", index) || text.startsWith(`'"'"'`, index);
}

function isEscapedAt(text: string, index: number): boolean {
  let slashes = 0;
  while (text[index - 1 - slashes] === '\\') slashes += 1;
  return slashes % 2 === 1;
}

/** To the end of the line, or to the quote that is left open by `-H 'Cookie: …'`. */
function headerAt(text: string, start: number): Range | undefined {
  const scheme = matchAt(/(?:bearer|basic|digest|token|apikey|negotiate)\s+/iy, text, start) ?? '';
  return rangeOf(/(?:=\s?"[^"\r\n]*"?|[^\r\n"'`\\])+/y, text, start + scheme.length);
}

function rangeOf(pattern: RegExp, text: string, start: number): Range | undefined {
  const found = matchAt(pattern, text, start);
  return found === undefined ? undefined : { start, end: start + found.length };
}

function matchAt(pattern: RegExp, text: string, start: number): string | undefined {
  pattern.lastIndex = start;
  return pattern.exec(text)?.[0];
}

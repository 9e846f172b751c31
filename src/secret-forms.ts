/** What stands in the place of a secret. */
export const mark = '[redacted]';

// The one list of names: of members, of variables, headers, options and parameters in text. Words are in lower case, joined by `_`.

/** A name that ends so names a secret, whatever stands before it: `dbpassword`, `PGPASSWORD`. */
const anywhere = 'passw(?:or)?ds?|passphrases?|apikeys?|api_keys?|clientsecrets?|authtoken|accesstoken';
/** The same, only as a word of its own. */
const words = [
  '(?:private|access|secret|client|signing|encryption|master|account|shared|storage|service|auth|webhook|deploy|license|ssh)_?keys?',
  'authorizations?|pwds?|secrets?|cookies?|credentials?|creds|jwts?|dsns?|code_verifiers?|amz_signatures?|(?<=_)pass|(?<=_)sig',
  '(?<!(?:^|[^a-z])per_?)token',
  '(?:access|refresh|auth|api|bearer|session|id|csrf)_?tokens',
].join('|');
/** What may follow: `PASSWORD_2`, `SECRET_KEY_BASE`. */
const after = '(?:_?\\d+|_(?:value|base|old|new|prod|dev|test|staging))*';
const secretName = new RegExp(`(?:${anywhere}|(?:^|[^a-z])(?:${words}))${after}$`);
const longestName = 256;

/** Headers whose value is the rest of the line. */
const headerName = /(^|_)(authorization|cookie)$/;

function wordsOf(name: string): string {
  const snake = name.slice(-longestName).replace(/([a-z0-9])([A-Z])/g, '$1_$2');
  return snake.replace(/[-.]/g, '_').toLowerCase();
}

/** Whether what has this name holds secrets: `apiKeys`, `x-api-key`, `DB_PASSWORD`, …; not `maxTokens`, a count. */
export function isSecretName(name: string): boolean {
  return secretName.test(wordsOf(name));
}

/** Prefixes of the keys of vendors. */
const keyPrefixes = [
  ...['sk-', 'pk-', 'rk-', 'sk_live_', 'sk_test_', 'rk_live_', 'rk_test_', 'whsec_', 'gh[pousr]_', 'github_pat_'],
  ...['glpat-', 'xox[abeoprs]-', 'xapp-', 'AKIA', 'ASIA', 'AIza', 'ya29\\.', 'SG\\.', 'npm_', 'pypi-', 'hf_', 'gsk_'],
  ...['xai-', 'pplx-', 'tvly-', 'dop_v1_', 'lin_api_', 'r8_', 'AGE-SECRET-KEY-'],
];

/** What a secret looks like, whatever its name; `$1` is kept. The time of each is linear in the length of the text. */
const secretForms: readonly RegExp[] = [
  /(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?:[^-]|-(?!----END))+/g,
  /\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}/gi,
  new RegExp(`(\\b(?:${keyPrefixes.join('|')}))[\\w-]{8,}(?:\\.[\\w-]+)*`, 'g'),
  // Tried once for each run of such characters, with the first `eyJ` in it: else its time would grow with the square of the text.
  /(?<![\w-])(?=([\w-]*?\beyJ))\1[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?/g,
  // The password of an address. One with `/`, `?`, `#` or `@` in it ends at the last `@`; digits before a `/` are a port.
  /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@:"'<>]{0,256}:(?!\d{1,5}[/?#])[^\s"'<>]{1,256}(?=@)/gi,
  /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@:]{0,256}:[^\s/@]+(?=@)/gi,
  /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[\w~.%+-]{20,}(?=@)/gi,
  /((?<![\w.-])[\w.-]{1,256}:)[^\s@:/]{1,256}(?=@(?:tcp|unix)\()/g,
  /((?<!\S)(?:-u|--user|--proxy-user)[\s=]\s*["']?[^\s:"']{1,256}:)[^\s"']+/g,
  /(\blogin\s+\S{1,256}\s+password\s+)\S+/gi,
  /(\b(?:password|identified\s+by)\s+["'])[^"'\n]+/gi,
  /(<[\w.:-]{0,100}(?:passw(?:or)?d|passphrase|secret|api[-_]?key|token)>)[^<]+/gi,
];

/** The text without what looks like a secret, and without the values of names that hold secrets. */
export function withoutForms(text: string): string {
  return withoutAssigned(secretForms.reduce((left, form) => left.replace(form, `$1${mark}`), text));
}

/** `name=`, `"name":`, `--name value`, `name =>`, also with the quotes escaped. Each run of letters is read once. */
const assignment =
  /(?<![\w.-])(?:(?<=\\)[nrt])?(?<option>--?)?(?=(?<name>[\w.-]+))\k<name>(?<between>(?<quote>\\*["'`])?\]?\s*(?:=>|:=|[:=])\s*|(?<=--[\w-]+)[^\S\n]+)/g;

/** `DB_PASSWORD=…`, `"client_secret": "…"`, `Cookie: …`, `--password …` without the values. */
function withoutAssigned(text: string): string {
  const parts: string[] = [];
  let kept = 0;
  assignment.lastIndex = 0;
  for (let found = assignment.exec(text); found; found = assignment.exec(text)) {
    const { name = '', between = '', quote } = found.groups ?? {};
    if (!isSecretName(name)) continue;
    const value = valueAt(text, assignment.lastIndex, {
      name,
      between,
      isJson: quote !== undefined,
      isVariable:
        /^[A-Z][A-Z\d_]*$/.test(name) && /(^|\n)[^\S\n]*(export |set |-e )?[^\S\n]*$/.test(beforeOf(text, found.index)),
    });
    if (!value) continue;
    parts.push(text.slice(kept, value.start), mark);
    kept = value.end;
    assignment.lastIndex = value.end;
  }
  return parts.length === 0 ? text : parts.join('') + text.slice(kept);
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

function valueAt(text: string, start: number, { name, between, isJson, isVariable }: Assigned): Range | undefined {
  if (between.includes(':') && !isJson && headerName.test(wordsOf(name)) && !/["'`“‘\\]/.test(text.charAt(start)))
    return headerAt(text, start);
  const opening = matchAt(/(\\*)(["'`“‘])/y, text, start);
  if (opening !== undefined) return quotedAt(text, start + opening.length, opening);
  if (isJson && /[[{]/.test(text.charAt(start))) return rangeOf(/[^\]}]+/y, text, start + 1);
  const unquoted = isVariable ? /\S+/y : /[^\s"'“”‘’,;&}]+/y;
  const value = rangeOf(unquoted, text, start);
  if (!value || text.startsWith(mark, value.start)) return undefined;
  // Prose such as "the password: must be long" stays.
  const word = text.slice(value.start, value.end);
  const isSure = between === '=' || isJson || word.length >= 8 || (word.length >= 4 && /\d/.test(word));
  return isSure ? value : undefined;
}

/** Up to the quote that ends it, or to the end of a string that was cut. */
function quotedAt(text: string, start: number, opening: string): Range | undefined {
  const quote = { '“': '”', '‘': '’' }[opening] ?? opening;
  const isEscaped = opening.length > 1;
  let end = text.indexOf(quote, start);
  while (end > 0 && !isEscaped && isEscapedAt(text, end)) end = text.indexOf(quote, end + 1);
  if (end === -1) end = text.length;
  return end > start ? { start, end } : undefined;
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

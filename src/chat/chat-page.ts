import { aBoolean, aString, assertOptions, type OptionRules, someStrings } from '../options/option-rules.ts';
import { script, style, version } from './page/main.tsx?page';

/** Options of `chatPage`: where its turns come from, and what the page shows. */
export interface ChatPageOptions {
  /** Where `uiMessageHandler` is mounted: a path of this origin, or an address of another. Default `/api/chat`. */
  readonly api?: string | undefined;
  /** The name of the agent, at the top of the page. Default `Chat`. */
  readonly title?: string | undefined;
  /** What an empty conversation offers to say. Default: nothing. */
  readonly suggestions?: readonly string[] | undefined;
  /**
   * Whether the page asks for a key where the API answers 401, and sends it as a bearer token; the key stays in the tab. Default false: the API knows its users by
   * cookies.
   */
  readonly accessKey?: boolean | undefined;
}

const rules: OptionRules<ChatPageOptions> = {
  api: {
    fits: (value) =>
      typeof value === 'string' && /^(\/(?!\/)|https?:\/\/)/.test(value) && URL.canParse(value, 'http://localhost'),
    must: 'be the path of uiMessageHandler, e.g. /api/chat, or an http address',
  },
  title: aString,
  suggestions: someStrings,
  accessKey: aBoolean,
};

/**
 * A page to chat with an agent that `uiMessageHandler` serves: a `fetch` handler that gives the page, its script and its style at the one address where it is
 * mounted, whichever that is. The page streams Markdown, shows tools with what leaves the server of them, answers approvals and questions in place, and resumes after a
 * reload. Its list of conversations is in `localStorage` of the browser; conversations are in the store of the agent.
 *
 * The page loads nothing from other origins, and its content security policy lets it run its own script only. Answers 405 to methods other than GET and HEAD.
 * Errors: `INVALID_CONFIG`.
 */
export function chatPage(options: ChatPageOptions = {}): (request: Request) => Response {
  const html = htmlOf(checked(options));
  const policy = policyOf(options.api);
  return (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return new Response(null, { status: 405, headers: { allow: 'GET, HEAD' } });
    const { searchParams } = new URL(request.url);
    const isHead = request.method === 'HEAD';
    const respond = (body: string, type: string, headers: Readonly<Record<string, string>>) =>
      new Response(isHead ? null : body, {
        headers: { 'content-type': `${type}; charset=utf-8`, 'x-content-type-options': 'nosniff', ...headers },
      });
    if (searchParams.has('script')) return respond(script, 'text/javascript', forEver);
    if (searchParams.has('style')) return respond(style, 'text/css', forEver);
    return respond(html, 'text/html', {
      'content-security-policy': policy,
      'cache-control': 'no-cache',
      'referrer-policy': 'no-referrer',
    });
  };
}

/** The address has the version. */
const forEver = { 'cache-control': 'public, max-age=31536000, immutable' };

function checked(options: ChatPageOptions): Required<{ [Name in keyof ChatPageOptions]: {} & ChatPageOptions[Name] }> {
  assertOptions('chatPage', options, rules);
  const { api = '/api/chat', title = 'Chat', suggestions = [], accessKey = false } = options;
  return { api, title, suggestions, accessKey };
}

/** No script but the page's own, no string that becomes HTML, nothing of other origins but the API. */
function policyOf(api = ''): string {
  const origin = api.startsWith('/') || api === '' ? '' : ` ${new URL(api).origin}`;
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    'img-src data:',
    `connect-src 'self'${origin}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

/** Addresses of a query alone are below the page, wherever it is mounted. */
function htmlOf({ api, title, suggestions, accessKey }: ReturnType<typeof checked>): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="?style=${version}">
<script type="module" src="?script=${version}"></script>
</head>
<body data-api="${escaped(api.replace(/\/$/, ''))}" data-title="${escaped(title)}" data-suggestions="${escaped(JSON.stringify(suggestions))}"${accessKey ? ' data-access-key' : ''}>
<noscript>This page needs JavaScript.</noscript>
</body>
</html>
`;
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => entities[character] ?? '');
}

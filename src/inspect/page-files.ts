import { script, style } from './page/main.tsx?page';

/** Nothing is loaded from elsewhere, no script stands in the page, and no other page shows it in a frame. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const headers = {
  'content-security-policy': policy,
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cross-origin-opener-policy': 'same-origin',
};

/** The page, its script or its style sheet, by its path below the base; undefined for any other path. They hold nothing of the store. */
export function pageFile(path: string, base: string): Response | undefined {
  const file = (type: string, body: string) =>
    new Response(body, { headers: { ...headers, 'content-type': `${type}; charset=utf-8` } });
  switch (path) {
    case '':
      return file('text/html', htmlAt(base));
    case 'page.js':
      return file('text/javascript', script);
    case 'page.css':
      return file('text/css', style);
    default:
      return undefined;
  }
}

function htmlAt(base: string): string {
  const at = base.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Millrace</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${at}page.css">
<script type="module" src="${at}page.js"></script>
</head>
<body><div id="page"></div></body>
</html>
`;
}

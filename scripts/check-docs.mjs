// Checks what `npm run docs` built: a page for each export of each entry, no link that leads nowhere, and a docstring for each export and its methods.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('..', import.meta.url));
const site = join(root, 'docs-site');
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const entries = Object.entries(exports).flatMap(([path, target]) =>
  target.default === undefined
    ? []
    : [
        {
          name: `millrace${path.slice(1)}`,
          file: join(root, target.default.replace(/^\.\/dist\/(.+)\.js$/, 'src/$1.ts')),
        },
      ],
);

const { options } = ts.getParsedCommandLineOfConfigFile(
  join(root, 'tsconfig.build.json'),
  {},
  { ...ts.sys, onUnRecoverableConfigFileDiagnostic: undefined },
);
const program = ts.createProgram(
  entries.map(({ file }) => file),
  options,
);
const checker = program.getTypeChecker();

/** What an entry exports, under the names that programs import. */
function exportsOf({ file }) {
  const module = checker.getSymbolAtLocation(program.getSourceFile(file));
  return checker.getExportsOfModule(module).map((symbol) => ({
    name: symbol.name,
    symbol: symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
  }));
}

function isDescribed(symbol) {
  return (
    symbol.getDocumentationComment(checker).length > 0 ||
    symbol.getJsDocTags(checker).some(({ name }) => name === 'internal')
  );
}

/** The methods and accessors of a class or an interface that programs may use. */
function methodsOf({ declarations = [] }) {
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  return declarations
    .flatMap((each) => (ts.isInterfaceDeclaration(each) || ts.isClassDeclaration(each) ? [...each.members] : []))
    .filter((member) => ts.isMethodSignature(member) || ts.isMethodDeclaration(member) || ts.isGetAccessor(member))
    .filter((member) => !ts.isPrivateIdentifier(member.name))
    .filter((member) => (ts.getCombinedModifierFlags(member) & hidden) === 0)
    .map(({ symbol }) => symbol);
}

function undescribed() {
  const all = new Map(entries.flatMap(exportsOf).map(({ name, symbol }) => [symbol, name]));
  return [...all].flatMap(([symbol, name]) => [
    ...(isDescribed(symbol) ? [] : [`${name} has no docstring`]),
    ...methodsOf(symbol)
      .filter((method) => !isDescribed(method))
      .map((method) => `${name}.${method.name} has no docstring`),
  ]);
}

const pages = readdirSync(site, { recursive: true }).filter((file) => file.endsWith('.html'));
const html = new Map(pages.map((page) => [join(site, page), readFileSync(join(site, page), 'utf8')]));
const anchors = new Map(
  [...html].map(([page, text]) => [page, new Set([...text.matchAll(/ (?:id|name)="([^"]*)"/g)].map(([, id]) => id))]),
);

function decoded(text) {
  return decodeURIComponent(text.replaceAll('&amp;', '&').replaceAll('&#39;', "'").replaceAll('&quot;', '"'));
}

function linksOf(page) {
  return [...html.get(page).matchAll(/ (?:href|src)="([^"]*)"/g)]
    .map(([, link]) => link)
    .filter((link) => !/^[a-z]+:/i.test(link));
}

function isDead(page, link) {
  const [path = '', anchor = ''] = link.split('#').map(decoded);
  const target = path === '' ? page : resolve(dirname(page), path.replace(/\?.*$/, ''));
  if (!existsSync(target)) return true;
  return anchor !== '' && anchors.has(target) && !anchors.get(target).has(anchor);
}

function deadLinks() {
  return [...html.keys()].flatMap((page) =>
    linksOf(page)
      .filter((link) => isDead(page, link))
      .map((link) => `${relative(site, page)} links to ${link}, which is not there`),
  );
}

/** The page of an entry links to that of each of its exports, which may be below another entry that exports it too. */
function withoutPage() {
  return entries.flatMap((entry) => {
    const page = join(site, 'modules', `${entry.name.replaceAll('/', '_')}.html`);
    if (!html.has(page)) return [`${entry.name} has no page`];
    const linked = new Set(linksOf(page).map((link) => /\/\w+\/[\w-]+?\.(\w+)\.html$/.exec(decoded(link))?.[1]));
    return exportsOf(entry).flatMap(({ name }) => (linked.has(name) ? [] : [`${name} of ${entry.name} has no page`]));
  });
}

const faults = [...withoutPage(), ...deadLinks(), ...undescribed()];
for (const fault of faults) console.error(fault);
console.log(
  `${pages.length} pages, ${entries.flatMap(exportsOf).length} exports of ${entries.length} entries: ${faults.length} faults`,
);
process.exitCode = faults.length === 0 ? 0 : 1;

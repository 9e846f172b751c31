import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { pages, root, textOf } from './markdown.ts';

interface Exported {
  readonly name: string;
  /** The source file that declares it. */
  readonly file: string;
}

function parse(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest);
}

/** What programs can import and use at run time; types left out. */
function valuesOf(entry: string): readonly Exported[] {
  return parse(entry).statements.flatMap((statement): readonly Exported[] => {
    if (ts.isExportDeclaration(statement)) return namedIn(statement, entry);
    if (!ts.canHaveModifiers(statement)) return [];
    if (!ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return [];
    const isValue = ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement);
    return isValue && statement.name ? [{ name: statement.name.text, file: entry }] : [];
  });
}

function namedIn({ isTypeOnly, exportClause, moduleSpecifier }: ts.ExportDeclaration, entry: string): Exported[] {
  if (isTypeOnly || !exportClause || !ts.isNamedExports(exportClause)) return [];
  const from = moduleSpecifier && ts.isStringLiteral(moduleSpecifier) ? moduleSpecifier.text : undefined;
  const file = from === undefined ? entry : join(dirname(entry), from);
  return exportClause.elements.filter((each) => !each.isTypeOnly).map(({ name }) => ({ name: name.text, file }));
}

function hasHiddenConstructor({ name, file }: Exported): boolean {
  if (!/^[A-Z]/.test(name)) return false;
  const source = parse(file);
  const declared = source.statements.find((each) => ts.isClassDeclaration(each) && each.name?.text === name);
  if (!declared || !ts.isClassDeclaration(declared)) return false;
  const made = declared.members.find(ts.isConstructorDeclaration);
  return made !== undefined && source.text.slice(made.pos, made.getStart(source)).includes('@internal');
}

const { exports }: { readonly exports: Readonly<Record<string, string | { readonly default: string }>> } = JSON.parse(
  textOf('package.json'),
);
const entries = Object.entries(exports).flatMap(([path, target]) =>
  typeof target === 'string'
    ? []
    : [{ path, entry: join(root, target.default.replace(/^\.\/dist/, 'src').replace(/\.js$/, '.ts')) }],
);

function entryOf(wanted: string): string {
  return entries.find(({ path }) => path === wanted)?.entry ?? '';
}

/** All that an entry exports, types too. */
function namesOf(path: string): readonly string[] {
  return parse(entryOf(path)).statements.flatMap((statement) => {
    if (!ts.isExportDeclaration(statement) || !statement.exportClause) return [];
    return ts.isNamedExports(statement.exportClause)
      ? statement.exportClause.elements.map(({ name }) => name.text)
      : [];
  });
}

/** The types that a declaration names, of those that its file declares or imports from others of ours. */
function typesNamedBy(name: string, file: string): readonly string[] {
  const source = parse(join(root, file));
  const known = new Set<string>();
  const named = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isTypeReferenceNode(node) && ts.isIdentifier(node.typeName)) named.add(node.typeName.text);
    if (ts.isExpressionWithTypeArguments(node) && ts.isIdentifier(node.expression)) named.add(node.expression.text);
    ts.forEachChild(node, visit);
  };
  for (const statement of source.statements) {
    if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) {
      known.add(statement.name.text);
      if (statement.name.text === name) visit(statement);
    }
    if (!ts.isImportDeclaration(statement) || !statement.moduleSpecifier.getText(source).startsWith("'.")) continue;
    const imported = statement.importClause?.namedBindings;
    if (imported && ts.isNamedImports(imported)) for (const each of imported.elements) known.add(each.name.text);
  }
  return [...named].filter((each) => known.has(each));
}

describe('what is exported', () => {
  const docs = pages.map(textOf).join('\n');

  it('from the root is at most 200 names, all of whose types are in ./types with the others', () => {
    const root = namesOf('.');
    const types = namesOf('./types');
    expect(root.length).toBeLessThanOrEqual(200);
    expect(types.length).toBeGreaterThan(300);
    const values = new Set(valuesOf(entryOf('.')).map(({ name }) => name));
    expect(root.filter((name) => !values.has(name) && !types.includes(name))).toEqual([]);
    expect(valuesOf(entryOf('./types'))).toEqual([]);
  });

  it.each(entries.filter(({ path }) => path !== './types'))('from $path stands in the docs', ({ entry }) => {
    const values = valuesOf(entry);
    expect(values).not.toEqual([]);
    expect(values.map(({ name }) => name).filter((name) => !new RegExp(`\\b${name}\\b`).test(docs))).toEqual([]);
  });

  it.each([
    ['TurnRecord', 'src/core/journal/records.ts'],
    ['AgentEvent', 'src/core/contracts/events.ts'],
    ['Extension', 'src/core/contracts/extension.ts'],
    ['StateStoreOptions', 'src/stores/factory.ts'],
  ])('are all types that %s consists of', (name, file) => {
    const exported = entries.flatMap(({ path }) => namesOf(path));
    const named = typesNamedBy(name, file);
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((each) => !exported.includes(each))).toEqual([]);
  });

  // Declarations without their constructor would let `new` pass the compiler with nothing given.
  it.each(entries)('from $path are no classes that only the package makes', ({ entry }) => {
    expect(valuesOf(entry).filter(hasHiddenConstructor)).toEqual([]);
  });
});

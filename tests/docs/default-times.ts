import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';
import { root } from './markdown.ts';

/** Where the code has the default of a time limit. */
export interface Place {
  /** Relative to `src`. */
  readonly file: string;
  /** An option, a constant, or a member of a table of defaults. */
  readonly name: string;
  /** The function that has it, where the file has several of that name. */
  readonly inside?: string;
}

/** The number that the code uses where an option is not given. Throws where there is none, or more than one. */
export function defaultOf({ file, name, inside }: Place): number {
  const found = new Set(valuesIn(sourceOf(file), name, inside));
  const [value] = found;
  if (value !== undefined && found.size === 1) return value;
  throw new Error(`src/${file} has ${found.size} defaults of ${name}: ${[...found].join(', ')}`);
}

function sourceOf(file: string): ts.SourceFile {
  const path = join(root, 'src', file);
  return ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);
}

function valuesIn(source: ts.SourceFile, name: string, inside: string | undefined): readonly number[] {
  const values: number[] = [];
  const look = (node: ts.Node, isInside: boolean) => {
    const here = isInside || (ts.isFunctionDeclaration(node) && node.name?.text === inside);
    const given = here ? initializerOf(node, name) : undefined;
    const value = given && numberOf(source, given);
    if (value !== undefined) values.push(value);
    ts.forEachChild(node, (child) => look(child, here));
  };
  look(source, inside === undefined);
  return values;
}

/** `{ name = 1 }`, `const name = 1`, `{ name: 1 }`, `options.name ?? 1`. */
function initializerOf(node: ts.Node, name: string): ts.Expression | undefined {
  if (ts.isBindingElement(node))
    return (node.propertyName ?? node.name).getText() === name ? node.initializer : undefined;
  if (ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node))
    return node.name.getText() === name ? node.initializer : undefined;
  const isFallback = ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.QuestionQuestionToken;
  if (!isFallback || !ts.isPropertyAccessExpression(node.left)) return undefined;
  return node.left.name.text === name ? node.right : undefined;
}

function numberOf(source: ts.SourceFile, given: ts.Expression): number | undefined {
  if (ts.isNumericLiteral(given)) return Number(given.text.replaceAll('_', ''));
  if (!ts.isIdentifier(given)) return undefined;
  const here = valuesIn(source, given.text, undefined)[0];
  if (here !== undefined) return here;
  const from = source.statements.find(
    (each) => ts.isImportDeclaration(each) && each.importClause?.getText().includes(given.text),
  );
  if (!from || !ts.isImportDeclaration(from) || !ts.isStringLiteral(from.moduleSpecifier)) return undefined;
  const path = join(dirname(source.fileName), from.moduleSpecifier.text);
  return valuesIn(sourceOf(path.slice(join(root, 'src').length + 1)), given.text, undefined)[0];
}

import { expect, it } from '@jest/globals';
import ts from 'typescript';
import { codeBlocksIn, pages, textOf } from './markdown.ts';

/** Loops, functions that call themselves, and `retry` of RxJS, by which code tries again what was `BUSY`. With their lines. */
function busyLoopsIn(code: string): readonly number[] {
  const source = ts.createSourceFile('block.ts', code, ts.ScriptTarget.Latest, true);
  const found: number[] = [];
  const look = (node: ts.Node) => {
    if (triesAgain(node)) found.push(source.getLineAndCharacterOfPosition(node.getStart()).line + 1);
    else ts.forEachChild(node, look);
  };
  look(source);
  return found;
}

function triesAgain(node: ts.Node): boolean {
  if (ts.isIterationStatement(node, false)) return hasIn(node, catchesBusy);
  if (ts.isCallExpression(node) && /(^|\.)(retry|retryWhen|repeat)$/.test(node.expression.getText()))
    return hasIn(node, saysBusy);
  const name = nameOf(node);
  return name !== undefined && hasIn(node, (each) => catchesBusy(each) && hasIn(each, (inner) => calls(inner, name)));
}

function nameOf(node: ts.Node): string | undefined {
  if (ts.isFunctionDeclaration(node)) return node.name?.text;
  const isFunction = ts.isVariableDeclaration(node) && node.initializer && ts.isFunctionLike(node.initializer);
  return isFunction ? node.name.getText() : undefined;
}

function calls(node: ts.Node, name: string): boolean {
  return ts.isCallExpression(node) && node.expression.getText() === name;
}

/** `catch` of a statement, or of a promise. */
function catchesBusy(node: ts.Node): boolean {
  const isCatch =
    ts.isCatchClause(node) || (ts.isCallExpression(node) && /\.catch$|^catchError$/.test(node.expression.getText()));
  return isCatch && hasIn(node, saysBusy);
}

function saysBusy(node: ts.Node): boolean {
  return ts.isStringLiteral(node) && node.text === 'BUSY';
}

function hasIn(node: ts.Node, test: (node: ts.Node) => boolean): boolean {
  return ts.forEachChild(node, (child) => test(child) || hasIn(child, test)) === true;
}

const blocks = pages
  .filter((page) => page === 'README.md' || page.startsWith('docs'))
  .flatMap((page) => codeBlocksIn(textOf(page)).map((block) => ({ page, ...block })))
  .filter(({ language }) => /^(ts|tsx|js|mjs|typescript|javascript)$/.test(language));

it('H-36 no guide has a hand-written loop over BUSY: resume waits for the lease', () => {
  const found = blocks.flatMap(({ page, line, code }) => busyLoopsIn(code).map((at) => `${page}:${line + at - 1}`));
  expect(blocks.length).toBeGreaterThan(100);
  expect(found).toEqual([]);
});

it.each([
  ["for (;;) { try { await go(); break; } catch (error) { if (error.code !== 'BUSY') throw error; } }"],
  ["while (true) { try { return await go(); } catch (error) { if (error.code === 'BUSY') await pause(100); } }"],
  ["do { done = await go().then(yes).catch((error) => error.code !== 'BUSY'); } while (!done);"],
  [
    "async function go() { try { await run(); } catch (error) { if (error.code === 'BUSY') return go(); throw error; } }",
  ],
  ["const go = () => run().catch((error) => (error.code === 'BUSY' ? go() : fail(error)));"],
  ["run$.pipe(retry({ delay: (error) => (error.code === 'BUSY' ? timer(100) : throwError(() => error)) }));"],
])('H-36 a loop over BUSY is found: %s', (code) => {
  expect(busyLoopsIn(`${code}\n`)).toEqual([1]);
});

it('H-36 passing over a turn that is BUSY is no loop', () => {
  const code =
    "const go = async () => { try { await run(); } catch (error) { if (error.code !== 'BUSY') log(error); } };";
  expect(busyLoopsIn(`${code}\nfor (const each of all) await go(each);\n`)).toEqual([]);
});

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { type CodeBlock, codeBlocksIn, pages, root, textOf } from '../docs/markdown.ts';
import { testLimitMs } from '../eventually.ts';
import { installPacked } from '../packed-package.ts';

/** What a fragment takes for granted. */
const given = `
import { AgentLoop, AgentLoopError, ClientToolProvider, contentParts, LocalToolProvider, stopSignal, tool, TurnError } from 'millrace';
import type { Extension, LLMProvider, Message, TaskStateStore, ToolProvider, Turn } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { recordSpans } from 'millrace/testing';
import { z } from 'zod';
declare const loop: AgentLoop;
declare const turn: Turn;
declare const messages: readonly Message[];
declare const store: TaskStateStore;
declare const llmProvider: LLMProvider;
declare const toolProviders: readonly ToolProvider[];
declare const bank: {
  pay(invoice: string, key: string): Promise<string>;
  find(key: string): Promise<{ readonly receipt: string } | undefined>;
  refund(order: string, cents: number, key: string): Promise<string>;
};
declare const airline: { book(to: string, seat: string): Promise<string> };
export async function block(): Promise<void> {
`;

const blocks = pages.flatMap((page) => codeBlocksIn(textOf(page)).map((block) => ({ page, ...block })));
const samples = blocks.filter(({ language }) => language === 'ts' || language === 'js');
const isFragment = ({ mark }: CodeBlock) => mark === 'fragment';
const nameOf = ({ page, line, language }: CodeBlock & { readonly page: string }) =>
  `${page.replace(/\W/g, '-')}-${line}.${language}`;

const project = temporaryFolder({});
/** The package as a user has it: packed, and installed in a project of its own. */
let installed: string;
/** What the compiler says of each sample, by its file. */
let found: ReadonlyMap<string, readonly string[]>;

/** The options of a strict project of today; the snippets need none of this repository's. */
const options: ts.CompilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')],
  allowJs: true,
  noEmit: true,
};

function complaints(): ReadonlyMap<string, readonly string[]> {
  const files = samples.map((sample) => {
    const file = join(project.path, nameOf(sample));
    writeFileSync(file, isFragment(sample) ? `${given}${sample.code}}\n` : sample.code);
    return file;
  });
  const program = ts.createProgram(files, options);
  return new Map(
    files.map((file) => {
      const source = program.getSourceFile(file);
      const diagnostics = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
      return [file, diagnostics.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))];
    }),
  );
}

beforeAll(async () => {
  writeFileSync(join(project.path, 'package.json'), JSON.stringify({ name: 'project', private: true, type: 'module' }));
  installed = await installPacked(project.path);
  found = complaints();
});
afterAll(() => project.remove());

describe('the code on the pages', () => {
  it.each(samples)('U-20 $page:$line compiles against the packed package', (sample) => {
    expect(found.get(join(project.path, nameOf(sample)))).toEqual([]);
  });

  it('U-20 is whole, with its imports, or marked as a fragment', () => {
    const isWhole = ({ code }: CodeBlock) => /^(import|export) /m.test(code);
    const wrong = samples.filter((sample) => isWhole(sample) === isFragment(sample));
    expect(wrong.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
    const marks = new Set(blocks.map(({ mark }) => mark));
    expect([...marks].filter((mark) => mark !== '' && mark !== 'fragment')).toEqual([]);
  });

  it('U-20 is JSON where it says so', () => {
    for (const { language, code } of blocks) if (language === 'json') expect(() => JSON.parse(code)).not.toThrow();
  });

  it('U-20 is in the package as it is here', () => {
    expect(pages.filter((page) => readFileSync(join(installed, page), 'utf8') !== textOf(page))).toEqual([]);
  });
});

describe('the first screen of the README', () => {
  const lines = textOf('README.md').split('\n');
  const [first] = codeBlocksIn(textOf('README.md'));

  it('U-20 says what a turn is and shows the smallest program, which is an example', () => {
    expect(lines.slice(0, 10).join('\n')).toMatch(/\bturn\*{0,2} is\b/i);
    const example = readFileSync(join(root, 'examples/smallest.ts'), 'utf8');
    expect(first).toMatchObject({ language: 'ts', code: example });
    expect((first?.line ?? 0) + example.split('\n').length).toBeLessThanOrEqual(40);
    expect(example.trimEnd().split('\n').length).toBeLessThanOrEqual(15);
  });

  it('U-20 shows a program that runs as it stands, from the packed package', () => {
    const { outputText } = ts.transpileModule(first?.code ?? '', {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
    });
    const file = join(project.path, 'smallest.mjs');
    writeFileSync(file, outputText);
    const said = execFileSync(process.execPath, [file], { cwd: project.path, encoding: 'utf8', timeout: testLimitMs });
    expect(said).toMatch(/I am a stand-in for a model/);
  });
});

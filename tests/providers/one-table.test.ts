import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

const folder = fileURLToPath(new URL('../../src/providers', import.meta.url));

/** The tables: what is known of a vendor stands there and nowhere else. */
const tables: ReadonlySet<string> = new Set([
  'profiles.ts',
  'schemas/schema-dialects.ts',
  'failure-words.ts',
  'finish-words.ts',
  'failure-pause.ts',
  'read-usage.ts',
  'models/known-models.ts',
  'ai-sdk/vendors.ts',
  'ai-sdk/sdk-settings.ts',
  'ai-sdk/mending-fetch.ts',
]);

const vendors =
  /anthropic|claude|gemini|bedrock|mistral|groq|deepseek|moonshot|kimi|zhipu|minimax|openrouter|ollama|lmstudio|vllm|qwen|grok|gpt-\d/i;

/** The strings and patterns of a file that decide something: not those of imports, and not words for people. */
function literalsOf(file: string): readonly string[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
  const literals: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    const isText = ts.isStringLiteralLike(node) && !/\s/.test(node.text);
    if (isText || ts.isRegularExpressionLiteral(node)) literals.push(node.text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return literals;
}

function filesIn(path: string): readonly string[] {
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.d.ts'))
    .map(({ parentPath, name }) => join(parentPath, name));
}

describe('what is known of vendors', () => {
  it('stands in the tables: no other file decides by the name of a vendor or of a model', () => {
    const found = filesIn(folder)
      .map((file) => ({ name: relative(folder, file), file }))
      .filter(({ name }) => !tables.has(name))
      .flatMap(({ name, file }) =>
        literalsOf(file)
          .filter((text) => vendors.test(text))
          .map((text) => `${name}: ${text}`),
      );
    expect(found).toEqual([]);
  });
});

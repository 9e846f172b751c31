// Pages in the package: `import { script, style, version } from './page/main.tsx?page'` gives the bundle of that file and of the styles that it imports.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** The chat page uses the lexer of marked alone. What stands after it has effects when it is loaded, so that a bundler keeps it: it is left out here. */
const lexerPlugin = {
  name: 'lexer',
  setup: ({ onLoad }) => onLoad({ filter: /[\\/]marked\.esm\.js$/ }, ({ path }) => ({ contents: lexerOf(path) })),
};

function lexerOf(path) {
  const text = readFileSync(path, 'utf8');
  const [, lexer] = /([\w$]+) as Lexer\b/.exec(text) ?? [];
  const [, renderer] = /([\w$]+) as Renderer\b/.exec(text) ?? [];
  const end = text.indexOf(`var ${renderer}=class{`);
  if (!lexer || end < text.indexOf(`${lexer}=class`)) throw new Error(`${path} is not as lexerOf expects it`);
  return `${text.slice(0, end)}export { ${lexer} as Lexer };`;
}

export const pagePlugin = { name: 'page', setup };

function setup({ onResolve, onLoad }) {
  onResolve({ filter: /\?page$/ }, ({ path, resolveDir }) => ({
    path: resolve(resolveDir, path.replace(/\?page$/, '')),
    namespace: 'page',
  }));
  onLoad({ filter: /.*/, namespace: 'page' }, async ({ path }) => {
    const { outputFiles, metafile } = await build({
      entryPoints: [path],
      bundle: true,
      minify: true,
      write: false,
      metafile: true,
      outdir: '/',
      format: 'esm',
      platform: 'browser',
      target: ['chrome123', 'firefox120', 'safari17.5'],
      charset: 'utf8',
      // Children as arguments of `h` are shorter than as a member of each object.
      inject: [fileURLToPath(new URL('page-jsx.mjs', import.meta.url))],
      tsconfigRaw: { compilerOptions: { jsx: 'react', jsxFactory: 'h', jsxFragmentFactory: 'Fragment' } },
      legalComments: 'none',
      logLevel: 'warning',
      plugins: [lexerPlugin],
    });
    const textOf = (extension) => outputFiles.find((file) => file.path.endsWith(extension))?.text ?? '';
    const [script, style] = [textOf('.js'), textOf('.css')];
    const version = createHash('sha256').update(script).update(style).digest('hex').slice(0, 16);
    const members = Object.entries({ script, style, version });
    const contents = members.map(([name, text]) => `export const ${name} = ${JSON.stringify(text)};\n`).join('');
    return { contents, loader: 'js', watchFiles: Object.keys(metafile.inputs).map((file) => resolve(file)) };
  });
}

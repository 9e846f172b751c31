import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { build, type Metafile } from 'esbuild';

const entry = fileURLToPath(new URL('../../dist/ui/index.js', import.meta.url));

async function bundled(names: string): Promise<{ readonly bytes: number; readonly metafile: Metafile }> {
  const { outputFiles, metafile } = await build({
    stdin: { contents: `export ${names} from ${JSON.stringify(entry)};`, resolveDir: '.' },
    bundle: true,
    minify: true,
    platform: 'browser',
    format: 'esm',
    write: false,
    metafile: true,
    logLevel: 'silent',
  });
  return { bytes: outputFiles[0]?.contents.byteLength ?? 0, metafile };
}

describe('millrace/ui in a bundle', () => {
  it('V-20 bundles for browsers, with no module of Node.js and no package', async () => {
    const { metafile, bytes } = await bundled('*');
    const inputs = Object.keys(metafile.inputs).filter((file) => file !== '<stdin>');
    expect(inputs.length).toBeGreaterThan(0);
    expect(inputs.filter((file) => !/^dist\/(ui|chunks)\//.test(file))).toEqual([]);
    const imports = Object.values(metafile.inputs).flatMap((input) => input.imports.map(({ path }) => path));
    expect(imports.filter((path) => /^node:/.test(path))).toEqual([]);
    expect(bytes).toBeLessThan(50 * 1024);
  });

  it.each(['toUIMessageStreamResponse', 'toAgUIResponse', 'toSSEResponse'])(
    '%s alone brings at most 25 KB',
    async (name) => {
      const { bytes } = await bundled(`{ ${name} }`);
      expect(bytes).toBeGreaterThan(1_000);
      expect(bytes).toBeLessThan(25 * 1024);
    },
  );
});

/**
 * What a drill runs on: a corpus from a seed, its portals in a process, and an empty data folder.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configureDemo } from "../cli/demo.ts";
import type { Config } from "../config.ts";
import { Folders } from "../folders.ts";
import { ingest, type IngestResult } from "../ingest.ts";
import { readManifest } from "../manifest.ts";
import { type CorpusOptions, planCorpus, type PlannedDocument } from "../portals/corpus.ts";
import type { FaultProfile } from "../portals/faults.ts";
import { prepareCorpus } from "../portals/prepare.ts";
import { type PortalProcess, startPortalProcess } from "../portals/start-portal-process.ts";

export interface StageOptions extends CorpusOptions {
  readonly profile: FaultProfile;
  /** Changes of the configuration. */
  readonly config?: object;
  /** An existing corpus: several stages may use the same one. */
  readonly corpus?: string;
}

/** Long enough that a busy machine is not mistaken for a portal that hangs. */
const PATIENT = { headersMs: 4_000, idleMs: 4_000, totalMs: 10_000, retryBaseMs: 100 };

export class Stage {
  readonly folder: string;
  readonly folders: Folders;
  readonly plan: readonly PlannedDocument[];
  readonly manifest: string;
  readonly portals: PortalProcess;
  readonly config: Config;

  private constructor(parts: Pick<Stage, "folder" | "plan" | "manifest" | "portals" | "config">) {
    this.folder = parts.folder;
    this.folders = new Folders(join(parts.folder, "data"));
    this.plan = parts.plan;
    this.manifest = parts.manifest;
    this.portals = parts.portals;
    this.config = parts.config;
  }

  static async open({ profile, config, corpus, ...options }: StageOptions): Promise<Stage> {
    const folder = await mkdtemp(join(tmpdir(), "site-packets-"));
    const files = corpus ?? join(folder, "corpus");
    const { manifest } = await prepareCorpus(files, options);
    const portals = await startPortalProcess({ folder: files, seed: options.seed, profile });
    return new Stage({
      folder,
      plan: planCorpus(options),
      manifest,
      portals,
      config: configureDemo(portals.origins, { download: PATIENT, ...config }),
    });
  }

  /** Ingests the whole manifest in this process. */
  ingest(): Promise<IngestResult> {
    const { config, folders, manifest } = this;
    return ingest({ config, folders, entries: readManifest(manifest, config) });
  }

  async close(): Promise<void> {
    await this.portals.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

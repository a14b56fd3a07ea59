"""A small file for every model of the command line, and the words that fit it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

FAMILIES = {  # model -> (data, further words of a fit)
    "gda": ("flowers.csv", ["--target", "species", "--columns", "length,width"]),
    "naive-bayes": ("flowers.csv", ["--target", "species", "--families", "length=gaussian"]),
    "lda": ("texts.jsonl", ["--topics", "2", "--sweeps", "30", "--set", 'word_prior={0=["cat"]}']),
    "pln": ("counts.csv", ["--covariates", "sites.csv", "--offsets", "logsum", "--formula", "~ 1 + site"]),
    "pln-network": ("counts.csv", ["--covariates", "sites.csv", "--formula", "~ 1 + site", "--subsamples", "3"]),
    "pln-mixture": (
        "counts.csv",
        ["--covariates", "sites.csv", "--formula", "~ 1 + depth", "--components", "1,2", "--starts", "2"],
    ),
    "pln-discriminant": ("counts.csv", ["--covariates", "sites.csv", "--target", "site"]),
    "fem": ("flowers.csv", ["--target", "species", "--degree", "1,2", "--ridge", "1", "--bins", "3"]),
    "fem-network": ("flowers.csv", ["--ridge", "1", "--columns", "species,colour"]),
    "author-concept": ("papers.csv", ["--ontology", "concepts.obo", "--set", "author_backoff=none"]),
}


def write_files(folder: Path) -> None:
    """The files that `FAMILIES` names."""
    rng = np.random.default_rng(0)
    kind = np.arange(60) % 3
    flowers = pd.DataFrame({"length": rng.normal(kind, 0.4).round(3), "width": rng.normal(-kind, 0.6).round(3)})
    flowers["colour"] = np.array(["red", "blue", "white"])[(kind + (rng.random(60) < 0.2)) % 3]
    flowers["species"] = np.array(["rose", "iris", "lily"])[kind]
    flowers.loc[3, "width"] = np.nan
    flowers.to_csv(folder / "flowers.csv", index=False)
    words = [["cat", "dog", "mouse", "horse", "cow"], ["stocks", "bonds", "shares", "market", "price"]]
    texts = [
        {"name": f"d{i}", "text": " ".join(rng.choice(words[i % 2], 9)), "date": 2000 + i // 8, "side": "ab"[i % 2]}
        for i in range(40)
    ]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)))
    samples = [f"s{i}" for i in range(30)]
    counts = pd.DataFrame(rng.poisson(np.exp(rng.normal(1.5, 0.8, (30, 3)))), columns=list("abc"), index=samples)
    counts.to_csv(folder / "counts.csv", index_label="sample")
    sites = pd.DataFrame(
        {"sample": samples, "site": np.array(["east", "west"])[np.arange(30) % 2], "depth": rng.random(30).round(2)}
    )
    sites.to_csv(folder / "sites.csv", index=False)
    papers = [
        ("Apoptosis of cells was seen. The gene is expressed.", "Ann"),
        ("Cell death follows.", "Bob"),
        ("A gene.", "Ann; Bob"),
    ]
    pd.DataFrame(papers, columns=["text", "authors"]).to_csv(folder / "papers.csv", index=False)
    terms = '[Term]\nid: GO:1\nname: cell death\nsynonym: "apoptosis" EXACT []\n\n[Term]\nid: GO:2\nname: gene expression\n'
    (folder / "concepts.obo").write_text("format-version: 1.2\n\n" + terms)

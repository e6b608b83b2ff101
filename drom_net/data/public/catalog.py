"""What public data sets there are: where each is published, under which terms, and what the paper says of it.

Nothing of them is shipped with drom_net. Each file has the address of its publisher and a SHA-256.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from drom_net.data.settings import (
    Amazon,
    EachMovie,
    Jester,
    Landmine,
    Mhci,
    MovieLens,
    Newsgroups,
    SpamEcml2006,
    SpamEnron,
    SpamPu,
    Wisdm,
)


@dataclass(frozen=True, slots=True)
class PublicFile:
    """One file of a data set.

    Attributes:
        names: What it may be called in the set's folder; a download gets the first name.
        url: Where its publisher has it; empty where nobody does any more.
        sha256: Of its bytes (of a `.gz` that is not in `names[0]`: of the unpacked bytes), or, with `members`, of
            what the archive holds, see `places.digest_of`. Empty where it is not known.
        members: A regular expression; the file is an archive, and these of its members count, from there on.
    """

    names: tuple[str, ...]
    url: str
    sha256: str
    members: str = ""


class PaperRow(NamedTuple):
    """A row of the paper's Table 2."""

    name: str
    tasks: int
    samples: int
    dims: int
    largest: int
    smallest: int


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A data set that anyone can get.

    Attributes:
        name: Its key in the YAML file.
        title: What it is, in a few words.
        folder: The sub-folder that its files are in.
        terms: The licence in a few words.
        licence: The terms in full sentences, as the publisher states them or does not.
        restricts: Whether the terms must be agreed to before a download.
        notes: What a user should know of the features, and how the paper's numbers are met or missed.
        paper: The row of Table 2 that it stands for.
    """

    name: str
    title: str
    description: str
    folder: str
    source: str
    terms: str
    licence: str
    restricts: bool
    files: tuple[PublicFile, ...]
    positive: str
    measure: str = "error"
    notes: tuple[str, ...] = ()
    paper: PaperRow | None = None


def _raw(repository: str, commit: str, path: str) -> str:
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def _archive(repository: str, commit: str) -> str:
    return f"https://codeload.github.com/{repository}/tar.gz/{commit}"


NOT_STATED = "not stated"
VOCABULARY_LOOKS_AHEAD = (
    "The words and their idf are chosen from all mails of all tasks before the first one is learned: "
    "this looks ahead, and no site alone could do it."
)
_SPAM_EMAIL = PaperRow("Spam Email", 4, 7068, 1458, 4129, 710)
_MHC_I = PaperRow("MHC-I", 12, 18664, 400, 3793, 415)
_EACH_MOVIE = PaperRow("EachMovie", 30, 6000, 1783, 200, 200)
_MALSAR = ("jiayuzhou/MALSAR", "fb9751594983df020ddc4f7e4a40520ee7c37989")
_HUMBLE_PEER = ("JingxiXu/humble-peer-amtl", "f4251164346fc524ed9f99dee5eebc93641b0c5e")
_DANN = ("GRAAL-Research/domain_adversarial_neural_network", "74eec5e0ae06bd6614bce048abba492c16a633e3")


def _amazon_file(domain: str, sha256: str) -> PublicFile:
    name = f"{domain}_train.svmlight"
    return PublicFile((name, f"{name}.gz"), _raw(*_DANN, f"data/{name}"), sha256)


def _newsgroups_file(name: str, path: str, sha256: str) -> PublicFile:
    return PublicFile((name,), _raw(*_MALSAR, f"data/Newsgroup/{path}"), sha256)


_SETS = (
    PublicSet(
        name=SpamPu.dataset,
        title="mail of four users, spam or not",
        description="PU1, PU2, PU3 and PUA (Androutsopoulos, Paliouras, Michelakis 2003): the mail of four users, each "
        "word replaced by a number; the paper's Spam Email. Parts 1 to 10 without the two mails of one word.",
        folder="spam_pu",
        source="repository billk97/A.I.2, src/pu_corpora_public; first at www.iit.demokritos.gr/skel/i-config",
        terms="non-commercial; name the origin, notify the authors",
        licence='From its readme.txt: "You are free to use PU1, PU2, PU3, and PUA for non-commercial purposes, '
        "provided that you acknowledge the use and origin of the corpora in any published work of yours that makes use "
        'of them, and that you notify one of the persons below about this work." Passing it on is not mentioned.',
        restricts=True,
        files=(
            PublicFile(
                ("pu_corpora_public.tar.gz", "pu_corpora_public.tar.xz"),
                _archive("billk97/A.I.2", "5de4cdb721d27f9f5046549378b8a91f602aef03"),
                "03430c6f1d4f9a1ea37a264b3306368515bfc0d5e442ec7da1e311177c230d42",
                members=r"pu_corpora_public/",
            ),
        ),
        positive="spam",
        notes=(
            VOCABULARY_LOOKS_AHEAD,
            "Each corpus has a code book of its own: word 84 of pu1 is not word 84 of pu3. The columns are shared in "
            "number only, so sharing between these tasks is not expected to help.",
            "The 1,458 columns are the words of highest document frequency, as many as the paper has; which ones the "
            "paper took is not known. features: weka gives 1,450 by the rule of Weka's StringToWordVector.",
        ),
        paper=_SPAM_EMAIL,
    ),
    PublicSet(
        name=Mhci.dataset,
        title="peptides binding to 12 MHC-I molecules",
        description="Measured affinity of peptides of 9 residues to 12 MHC class I molecules (IEDB; Kim et al. 2014, "
        "as curated for MHCflurry, O'Donnell et al. 2018); one laboratory (Sette), geometric mean for each pair.",
        folder="mhci",
        source="repository dmnfarrell/epitopepredict, epitopepredict/mhcdata",
        terms="data's own not stated (repository: GPL v3)",
        licence="The package that holds it is under the GNU GPL v3. The measurements' own is not stated there.",
        restricts=False,
        files=(
            PublicFile(
                ("curated_training_data.no_mass_spec.zip",),
                _raw(
                    "dmnfarrell/epitopepredict",
                    "f2d29f7c13dd524029860be10886546996719ccb",
                    "epitopepredict/mhcdata/curated_training_data.no_mass_spec.zip",
                ),
                "b8571d29a5b40cbc8b43fc9f7e3633cc0b5443e56c46c08ae8356408ddded748",
            ),
        ),
        positive="a binder (IC50 at most 500 nM)",
        notes=(
            "The paper's own selection (18,664 peptides) is not published; this is the nearest public data. That its "
            "400 columns are pairs of adjacent residues is a guess from their number.",
            "features: one-hot (9 positions x 20 residues, 180 columns) is far more accurate.",
        ),
        paper=_MHC_I,
    ),
    PublicSet(
        name=Jester.dataset,
        title="30 people's taste in jokes",
        description="Jester 1 (Goldberg, Roeder, Gupta, Perkins 2001): ratings of 100 jokes. Of the people who rated "
        "all, in file order: 0 to 29 are tasks, and the ratings of 30 to 1812 a joke's features.",
        folder="jester",
        source="repository negi-soumya/eigentaste, jester-data-1.zip; published at goldberg.berkeley.edu/jester-data",
        terms="research use, acknowledged",
        licence="The publisher's page says: \"Freely available for research use when acknowledged with the following "
        "reference: Eigentaste: A Constant Time Collaborative Filtering Algorithm. Ken Goldberg, Theresa Roeder, Dhruv "
        'Gupta, and Chris Perkins. Information Retrieval, 4(2), 133-151. July 2001."',
        restricts=True,
        files=(
            PublicFile(
                ("jester-data-1.zip",),
                _raw("negi-soumya/eigentaste", "0877aa8b2b16531cc806a77bae606ad2b8ee5122", "jester-data-1.zip"),
                "4adf783a1e03bd3be063315cb6e0a064fe63e983fd289d01b8e401a8e6c41e5f",
            ),
        ),
        positive="a joke the person rated above 0",
        notes=(
            "It stands in for EachMovie, which was withdrawn: as many tasks and columns, half the samples.",
            "All tasks have the same 100 rows; only the labels differ.",
        ),
        paper=_EACH_MOVIE,
    ),
    PublicSet(
        name=MovieLens.dataset,
        title="30 people's taste in films",
        description="MovieLens 1M (Harper and Konstan 2015): the first 30 users, by number, of at least 200 ratings "
        "are tasks, each with its first 200 in time; a film's features are the ratings of the 1,783 others with most.",
        folder="movielens",
        source="GroupLens, University of Minnesota: files.grouplens.org/datasets/movielens/ml-1m.zip",
        terms="research; not to be passed on, no commercial use",
        licence="From its README: for research purposes only; acknowledge the data set in publications; do not pass it "
        "on without separate permission; no commercial use without that of the GroupLens Research Project; do not "
        "imply an endorsement by the University of Minnesota.",
        restricts=True,
        files=(
            PublicFile(
                ("ml-1m.zip",),
                "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
                # As TensorFlow Datasets has it, url_checksums/movielens.txt: this file was not at hand.
                "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
            ),
        ),
        positive="a film the person gave 4 or 5 stars of 5",
        notes=("It stands in for EachMovie, which was withdrawn, and is made in its manner.",),
        paper=_EACH_MOVIE,
    ),
    PublicSet(
        name=EachMovie.dataset,
        title="30 people's taste in films (withdrawn)",
        description="EachMovie (DEC Systems Research Center 1997), for who has it: the first 30 people, by number, of "
        "at least 200 votes are tasks, each with its first 200; a film's features are the votes of the 1,783 others "
        "with most. Votes of a weight below 1, on films not seen, are left out.",
        folder="eachmovie",
        source="DEC Systems Research Center; withdrawn",
        terms="research, non-commercial; withdrawn",
        licence="Its page said: for research that is non-commercial and not revenue-bearing; credit Digital Equipment "
        "Corporation. It was withdrawn and cannot be downloaded.",
        restricts=True,
        files=(PublicFile(("Vote.txt", "vote.txt"), "", ""),),
        positive="a film the person scored above 0.5 of 1",
        notes=("Which people and films the paper took is not known; the rule here is our own.",),
        paper=_EACH_MOVIE,
    ),
    PublicSet(
        name=SpamEcml2006.dataset,
        title="mail of 15 users, spam or not",
        description="ECML/PKDD 2006 Discovery Challenge, task B: 15 users with 400 mails each, one vocabulary.",
        folder="spam_ecml2006",
        source="repository JingxiXu/humble-peer-amtl, emails.mat",
        terms=NOT_STATED,
        licence="Not stated, neither by the repository nor in the file.",
        restricts=False,
        files=(
            PublicFile(
                ("emails.mat",),
                _raw(*_HUMBLE_PEER, "emails.mat"),
                "0f661cd1ad2d1cc54065c4526721a7b5f4374f7e08b3471509c04bc79fae0cce",
            ),
        ),
        positive="spam (the file says 1)",
        notes=(VOCABULARY_LOOKS_AHEAD,),
    ),
    PublicSet(
        name=SpamEnron.dataset,
        title="mail of six Enron users, spam or not",
        description="Enron-Spam (Metsis, Androutsopoulos, Paliouras 2006), preprocessed: the mail of six people mixed "
        "with spam, in the order in which it came. One spam mail of enron4 is missing in this copy.",
        folder="spam_enron",
        source="repository DungQuangUiT/enron_dataset",
        terms=NOT_STATED,
        licence="Not stated by the repository. Real people's mail, public since 2003.",
        restricts=False,
        files=(
            PublicFile(
                ("enron_spam.tar.gz", "enron_spam.tar.xz"),
                _archive("DungQuangUiT/enron_dataset", "293b93383d232e9a5790b708d3d746ee048ed70d"),
                "795e3e2ae8affc74d5c83ca7c65cacaa7cd62d4feb8d5544b67f3ad45afe6205",
                members=r"enron[1-6]/",
            ),
        ),
        positive="spam",
        notes=(VOCABULARY_LOOKS_AHEAD, "With shuffle: false each task is its mailbox's true stream."),
    ),
    PublicSet(
        name=Amazon.dataset,
        title="reviews of four kinds of goods",
        description="Amazon reviews of books, films, electronics and kitchen goods (Blitzer, Dredze, Pereira 2007): "
        "counts of 5,000 words and pairs of words.",
        folder="amazon_sentiment",
        source="repository GRAAL-Research/domain_adversarial_neural_network, data",
        terms="reviews' own not stated (repository: BSD)",
        licence="The repository is under a BSD licence; the licence of the reviews is not stated.",
        restricts=False,
        files=(
            _amazon_file("books", "317f9a2ec34b81de770b63a84d8c5cc2dc16bd0be6e079d2ff5b5bad5213ea19"),
            _amazon_file("dvd", "95f602aa08bf6b55758f7b0b18df3882fe30acb11987ee60b6b4bb3c44cba733"),
            _amazon_file("electronics", "7d0061f03ff3827e4f8036b051b5e5828fddc0cd115aa5b212cd28d624dc14e4"),
            _amazon_file("kitchen", "a70b5ebfe1413e0e16280360905f5c3b64389c435cd20c0165dc9d7f293b31b5"),
        ),
        positive="a favorable review",
    ),
    PublicSet(
        name=Newsgroups.dataset,
        title="20 Newsgroups, a pair of related tasks",
        description="20 Newsgroups as prepared for MALSAR: comp against sci, or rec against talk, each as two tasks of "
        "different subgroups; 2,000 words.",
        folder="newsgroups",
        source="repository jiayuzhou/MALSAR, data/Newsgroup",
        terms="data's own not stated (repository: GPL v3)",
        licence="MALSAR is under the GNU GPL v3; the licence of the posts is not stated.",
        restricts=False,
        files=(
            _newsgroups_file(
                "comp.vs.sci_task1.mat",
                "comp.vs.sci/task1.mat",
                "136e73185215cdc5fe7af4c2e0d86dae9da864e119fef95253ef6614d139d7ab",
            ),
            _newsgroups_file(
                "comp.vs.sci_task2.mat",
                "comp.vs.sci/task2.mat",
                "efafdffe36f05668f9cd638cbfad45a96b6e69e385a65fb7a24dda6082adec52",
            ),
            _newsgroups_file(
                "rec.vs.talk_task1.mat",
                "rec.vs.talk/Task1.mat",
                "2ccc2c933adb5e9a88524e0d0a90022ee925e3395fead485c2d7d31a14149997",
            ),
            _newsgroups_file(
                "rec.vs.talk_task2.mat",
                "rec.vs.talk/Task2.mat",
                "162fe06ddbad645577a2c538645f72115416811f8ee6dffc2fe2944a1c632e08",
            ),
        ),
        positive="class 2 (which group that is, the files do not say)",
        notes=("The idf of the words is that of all posts of both tasks: this looks ahead.",),
    ),
    PublicSet(
        name=Landmine.dataset,
        title="29 mine fields seen by radar",
        description="Landmine detection (Xue, Liao, Carin, Krishnapuram 2007): 9 radar features at 29 fields, of which "
        "1 to 15 are under leaves and 16 to 29 bare.",
        folder="landmine",
        source="repository JingxiXu/humble-peer-amtl, LandmineData.mat; published by Duke University",
        terms=NOT_STATED,
        licence="Not stated.",
        restricts=False,
        files=(
            PublicFile(
                ("LandmineData.mat",),
                _raw(*_HUMBLE_PEER, "LandmineData.mat"),
                "2163ab20a80e33a8b65593c48cf283c540599dcb291105e63fa4af2ce24c2bea",
            ),
        ),
        positive="a mine",
        measure="auc",
        notes=(
            "One row in sixteen is a mine: who always says no errs in 6.1 %. Compare areas under the curve (AUC).",
            "Columns are standardised by the mean and deviation over all fields: this looks ahead.",
        ),
    ),
    PublicSet(
        name=Wisdm.dataset,
        title="36 people's movements, by telephone",
        description="WISDM activity recognition 1.1, transformed (Kwapisz, Weiss, Moore 2010): windows of ten seconds "
        "of an accelerometer, 36 people, 6 activities.",
        folder="wisdm",
        source="repository bhumeshchopda/WISDM_Challenge; published by the WISDM Lab, Fordham University",
        terms="free; cite it, pass it on with its readme",
        licence='From its readme.txt: "When using this dataset, we request that you cite this paper" (Kwapisz, Weiss, '
        'Moore 2010) and "When sharing or redistributing this dataset, we request that this readme.txt file is always '
        'included."',
        restricts=False,
        files=(
            PublicFile(
                ("WISDM_ar_v1.1_transformed.arff", "WISDM_ar_v1.1_transformed.arff.gz"),
                _raw(
                    "bhumeshchopda/WISDM_Challenge",
                    "049c8f5bd3f8f0230561ca09bc7e4a480e75ecd2",
                    "WISDM_ar_v1.1_transformed.arff",
                ),
                "8cb3fbbad6398ac4b817cc7b98f387efa89ac24b26d1270a5e7a1049a8f9c31a",
            ),
        ),
        positive="walking",
        notes=("Columns are standardised by the mean and deviation over all people: this looks ahead.",),
    ),
)

PUBLIC_SETS: dict[str, PublicSet] = {entry.name: entry for entry in _SETS}
"""By name, the sets of the paper first."""

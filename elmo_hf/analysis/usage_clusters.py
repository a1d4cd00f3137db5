"""Clusters of the uses of a word: k-means, the number of clusters by the silhouette."""

from dataclasses import dataclass

import numpy as np

from .layer_reader import unit_vectors

# Vectors are reduced to this many principal components, in which k-means is faster and less noisy.
COMPONENTS = 20
MAX_CLUSTERS = 6


@dataclass
class Clusters:
    """Clusters of N uses.

    Args:
        labels: (N,), the cluster of each use; cluster 0 is the largest.
        silhouette: the mean silhouette coefficient, between -1 and 1; 0 for a single cluster.
        typicality: (N,), minus the distance of each use from the center of its cluster.
    """

    labels: np.ndarray
    silhouette: float
    typicality: np.ndarray

    @property
    def count(self) -> int:
        """The number of clusters."""
        return int(self.labels.max()) + 1

    def typical(self, cluster: int, most: int) -> list[int]:
        """The uses that are nearest to the center of a cluster, nearest first, equally near ones in their order."""
        members = np.flatnonzero(self.labels == cluster)
        # Two uses alone are equally far from their center, but for rounding.
        distances = (-self.typicality[members]).round(4)
        return members[np.argsort(distances, kind="stable")][:most].tolist()


def cluster_uses(
    vectors: np.ndarray, max_clusters: int = MAX_CLUSTERS, min_silhouette: float = 0.0, seed: int = 0
) -> Clusters:
    """Divides uses into 2 to `max_clusters` clusters by k-means; the division with the largest silhouette is taken.

    Args:
        vectors: (N, d), compared by their directions.
        max_clusters: the largest number of clusters to try.
        min_silhouette: if no division reaches it, all uses form one cluster.
        seed: of the initial centers.

    Example:

    ```python
    >>> import numpy as np
    >>> from elmo_hf.analysis.usage_clusters import cluster_uses
    >>> cluster_uses(np.array([[1, 0.1], [1, 0], [0, 1], [1, -0.1], [0.1, 1]])).labels.tolist()
    [0, 0, 1, 0, 1]

    ```
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score
    from threadpoolctl import threadpool_limits

    points = principal_components(unit_vectors(vectors), COMPONENTS)
    distinct = len(np.unique(points.round(4), axis=0))
    best, best_score = None, -1.0
    # On so few points, threads wait for each other longer than they compute.
    with threadpool_limits(limits=1):
        for number in range(2, min(max_clusters, distinct, len(points) - 1) + 1):
            kmeans = KMeans(number, n_init=3, random_state=seed).fit(points)
            score = float(silhouette_score(points, kmeans.labels_))
            if score > best_score:
                best, best_score = kmeans, score
    if best is None or best_score < min_silhouette:
        labels, centers, best_score = np.zeros(len(points), np.int64), points.mean(0, keepdims=True), 0.0
    else:
        order = np.argsort(-np.bincount(best.labels_), kind="stable")
        labels, centers = np.argsort(order)[best.labels_], best.cluster_centers_[order]
    return Clusters(labels, best_score, -np.linalg.norm(points - centers[labels], axis=1))


def principal_components(x: np.ndarray, count: int) -> np.ndarray:
    """The first principal components (N, count or fewer) of vectors (N, d)."""
    from sklearn.decomposition import PCA

    if not np.ptp(x, axis=0).any():
        return np.zeros((len(x), min(count, *x.shape)), x.dtype)  # nothing varies
    return PCA(min(count, *x.shape), svd_solver="full").fit_transform(x)


__all__ = ["Clusters", "cluster_uses"]
